"""Fakes of steps: in a block, a step is what the test says, and its calls are kept.

    from holdfast.testing import fake

    with fake(charge, returns=Receipt(1)) as charged:
        virtual.run(app, story)
    assert charged.calls == [(("lamp",), {})]

Everything else stays real: arguments and results are encoded and checked by the annotations of the
step, failures are retried as it says, and what happened is recorded. The definition itself is
changed while the block is open, so the fake holds in every worker of this process, whatever opened
it, and nowhere else. What `charge.options(...)` gave before the block is another object, and stays
real.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from enum import Enum
from inspect import isawaitable
from typing import Any, Generic, Literal, NamedTuple, ParamSpec, TypeVar, cast, overload

from holdfast.errors import BadDefinition
from holdfast.fronts.function.step import Step

P = ParamSpec("P")
R = TypeVar("R")


class Unset(Enum):
    """Says that a fake was not told this."""

    UNSET = "unset"


UNSET: Literal[Unset.UNSET] = Unset.UNSET


class Call(NamedTuple):
    """The arguments of one call, as the step got them."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]


class Fake(Generic[P, R]):
    """What stands for a step: `calls` are those it got, oldest first, retries too."""

    def __init__(self, step: Step[P, R], does: Callable[P, R | Awaitable[R]]) -> None:
        self.step, self.calls = step, list[Call]()
        self._does = does

    async def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Keep the call, and do what the test says."""
        self.calls.append(Call(args, dict(kwargs)))
        found: Any = self._does(*args, **kwargs)
        result: R = await found if isawaitable(found) else found
        return result

    def __repr__(self) -> str:
        return f"<fake of {self.step.name}, {len(self.calls)} calls>"


@overload
def fake(step: Step[P, R], /, *, returns: R) -> AbstractContextManager[Fake[P, R]]: ...
@overload
def fake(
    step: Step[P, R], /, *, raises: BaseException | type[BaseException]
) -> AbstractContextManager[Fake[P, R]]: ...
@overload
def fake(
    step: Step[P, R], /, *, does: Callable[P, R | Awaitable[R]]
) -> AbstractContextManager[Fake[P, R]]: ...
def fake(step: Any, /, *, returns: Any = UNSET, raises: Any = UNSET, does: Any = UNSET) -> Any:
    """Have a step return this, raise this, or do this while the block is open.

    `does` is a function, sync or async, with the step's parameters. Raises `BadDefinition` if what
    is given is no step, or not exactly one of the three.
    """
    if not isinstance(step, Step):
        raise BadDefinition(
            what=f"fake was given {step!r:.60}, which is no step",
            hint="Give it the step itself: fake(charge, returns=...).",
        )
    told = [each for each in (returns, raises, does) if each is not UNSET]
    if len(told) != 1:
        raise BadDefinition(
            what=f"fake({step.name}) was told {len(told)} things to do",
            hint="Give one of returns=, raises= and does=.",
        )
    return _faked(cast("Step[..., Any]", step), _doing(returns, raises, does))


def _doing(returns: Any, raises: Any, does: Any) -> Callable[..., Any]:
    if does is not UNSET:
        return cast("Callable[..., Any]", does)

    def given(*_: object, **__: object) -> Any:
        if raises is not UNSET:
            raise raises
        return returns

    return given


@contextmanager
def _faked(step: Step[P, R], does: Callable[P, R | Awaitable[R]]) -> Generator[Fake[P, R]]:
    _ = step.signature  # made of the real function, and kept
    made = Fake(step, does)
    function, is_async = step.function, step.is_async
    step.function, step.is_async = made.__call__, True
    try:
        yield made
    finally:
        step.function, step.is_async = function, is_async
