"""Secrets in steps: listed where the step is defined, read while it runs.

They are there before the step begins: one that waits for a secret has done nothing yet.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.errors import BadDefinition, InvalidName
from holdfast.fronts.function.context import running
from holdfast.model.secrets import Secret, checked_secret_name


def secret(name: str) -> Secret:
    """Return a secret that this step lists: `@app.step(secrets=["stripe-key"])`.

    It is what the run was given under that name, or else what the app's provider has.
    Raises `NotInStep` in a workflow body, and `BadDefinition` for one that is not listed.
    """
    attempt = running("hf.secret()")
    found = attempt.secrets.get(name)
    if found is None:
        raise BadDefinition(
            what=f"Step {attempt.key} reads secret {name!r:.60}, which it does not list",
            hint=f"Write @app.step(secrets=[{name!r:.60}]).",
        )
    return found


def listed_secrets(names: Iterable[str], step: str) -> tuple[str, ...]:
    """Return the names of secrets that a step lists. Raises `BadDefinition`."""
    listed = () if isinstance(names, str) else tuple(names)
    try:
        if not listed:
            raise InvalidName(field="secrets", value=repr(names), problem="is no list of names")
        return tuple(dict.fromkeys(map(checked_secret_name, listed)))
    except InvalidName as error:
        raise BadDefinition(
            what=f"Step {step!r}: {error.field} {error.value[:60]!r} {error.problem}",
            hint='Write secrets=["stripe-key"].',
        ) from None
