"""Steps that others complete: the code ends, and the outcome comes later, by a token.

A step that is declared with `completes_later=True` has a token from the start: it is stored in the
commit that asks for the step, before its code begins. So whoever is told it can use it at once, and
a step that runs again after a crash is given the same one.
"""

from __future__ import annotations

from typing import NoReturn

from holdfast.errors import BadDefinition
from holdfast.fronts.function.context import running


class CompleteLater(BaseException):
    """Ends a step whose outcome comes from outside; raised by `hf.complete_later()`."""


def completion_token() -> str:
    """Return the text by which anybody can complete this attempt of the step, once.

    `client.complete(token, value)` gives the result, `client.fail(token, ...)` a failure. The step
    must be declared with `completes_later=True`.
    """
    return _token("hf.completion_token()")


def callback_url() -> str:
    """Return an address to which the outcome of this attempt can be sent.

    It is `Settings.callbacks`, then `/complete/` and the token.
    """
    token, base = _token("hf.callback_url()"), running("hf.callback_url()").callbacks()
    if not base:
        raise BadDefinition(
            what="hf.callback_url() was called, and this worker has no address",
            hint='Open the app with hf.Settings(callbacks="https://shop.example/holdfast").',
        )
    return f"{base.rstrip('/')}/complete/{token}"


def complete_later() -> NoReturn:
    """End this step without an outcome: it comes later, by the token.

    The run waits meanwhile without a worker; `timeout` and `total_timeout` go on counting.
    """
    _token("hf.complete_later()")
    raise CompleteLater


def _token(call: str) -> str:
    attempt = running(call)
    token = attempt.token()
    if not token:
        name = attempt.key.rpartition("/")[2].partition("#")[0]
        raise BadDefinition(
            what=f"{call} was called in step {name}, which nobody outside can complete",
            hint="Declare the step with @app.step(completes_later=True).",
        )
    return token
