"""Transactional steps: plain functions whose writes are kept if and only if the step is recorded.

The first parameter is the transaction, given by the worker; a call in a body has only the others.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar

from holdfast.errors import BadDefinition, NotInBody
from holdfast.fronts.function.context import running
from holdfast.fronts.function.naming import described, is_async
from holdfast.fronts.function.step import DEFAULTS, Step
from holdfast.machine import current
from holdfast.model.deeds import Deed
from holdfast.model.options import StepOptions

if TYPE_CHECKING:
    from holdfast.machine.values import Signature

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

SECONDS = 5
"""How long a transaction may take unless its definition says otherwise: others wait for it."""


class TransactionStep(Step[P, R], Generic[T, P, R]):
    """A step made from a `def` whose first parameter is the transaction."""

    is_transaction = True

    def __init__(
        self,
        function: Callable[Concatenate[T, P], R],
        *,
        name: str | None = None,
        settings: StepOptions = DEFAULTS,
        raises: Iterable[type[Exception]] = (),
    ) -> None:
        given: Any = function
        super().__init__(given, name=name, settings=settings, raises=raises)
        _check(given)

    if not TYPE_CHECKING:

        def __call__(self, *args, **kwargs):
            """Return a coroutine that gives the result. In a body, the key is taken here."""
            if current() is None and not is_async(self.function):  # which a fake is
                raise NotInBody(call=f"{self.name}()")
            return super().__call__(*args, **kwargs)

    @property
    def fits_chunks(self) -> bool:
        """Whether many calls of it may be done as one step: no, each has a commit of its own."""
        return False

    @property
    def plain(self) -> Callable[Concatenate[T, P], R]:
        """The bare function: it takes its transaction first, and is never recorded."""
        given: Any = self.function
        found: Callable[Concatenate[T, P], R] = given
        return found

    @functools.cached_property
    def signature(self) -> Signature:
        """How arguments and the result are stored: all but the transaction."""
        from holdfast.machine.values import Signature

        return Signature.of_method(self.function, names=self._names)


class WitnessedStep(TransactionStep[T, P, R]):
    """A transaction on a database of the user's, whose witness knows whether it was done."""

    def __init__(self, function: Callable[Concatenate[T, P], R], on: Any, **fields: Any) -> None:
        super().__init__(function, **fields)
        if not callable(getattr(on, "once", None)):
            raise BadDefinition(
                what=f"{self.name} is a transaction on {on!r:.60}, which is no witness",
                hint='Write on=hf.SqliteWitness("books.db"), or leave it out.',
            )
        self._bare, self.on = function, on
        self.signature  # noqa: B018 - made of the function itself, not of what stands for it
        self.function = self._once

    @property
    def plain(self) -> Callable[Concatenate[T, P], R]:
        """The bare function: it takes its transaction first, and is never recorded."""
        return self._bare

    def _once(self, *args: Any, **kwargs: Any) -> Any:
        """Do it unless it was done, and return what came of it. Called as an ordinary step is."""
        attempt, result = running(f"{self.name}()"), self.signature.result
        deed = Deed(attempt.ns, attempt.run, attempt.keyed_as, attempt.key, attempt.epoch)
        where = f"result of step {attempt.key}"

        def work(given: T) -> bytes:
            payload: bytes = result.cross(self._bare(given, *args, **kwargs), where=where)[0]
            return payload

        return result.decode(self.on.once(deed, work), where=where)


class TransactionDecorator(Protocol[T_co]):
    """What `@app.transaction(...)` puts on a function."""

    def __call__(
        self, function: Callable[Concatenate[T_co, P], R], /
    ) -> TransactionStep[Any, P, R]: ...


def _check(function: Callable[..., Any]) -> None:
    """Refuse what cannot be a transaction. Raises `BadDefinition`."""
    if is_async(function):
        raise BadDefinition(
            what=f"{described(function)} is an async def, and a transaction holds others up",
            hint="Write a plain def that does nothing but its statements.",
        )
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        raise BadDefinition(
            what=f"{described(function)} has no parameter for its transaction",
            hint="Begin with it: def book(tx: hf.Transaction, ...).",
        )
