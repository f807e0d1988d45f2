"""Queries and updates: what others may ask of a run, and what they may have it do.

A query is answered from the body's state and changes nothing. An update is a message with a reply:
the body may refuse it before anything is recorded, and runs a handler for it if it does not.
"""

from __future__ import annotations

from typing import Any, Generic, NamedTuple, TypeVar, overload

from holdfast.errors import BadDefinition, InvalidName
from holdfast.machine.signals import name_problem
from holdfast.machine.values import Schema

A = TypeVar("A")
R = TypeVar("R")
S = TypeVar("S")


class Talk(Generic[A, R]):
    """The name of something said to a run, the type it carries, and that of the reply."""

    __slots__ = ("argument", "name", "result", "takes_argument")

    kind = "message"

    def _declare(self, name: str, types: tuple[Any, ...]) -> None:
        problem = name_problem(name)
        if problem:
            raise InvalidName(field=f"{self.kind} name", value=str(name), problem=problem)
        if not 1 <= len(types) <= 2:
            called = f"hf.{type(self).__name__}({name!r}, ...)"
            raise BadDefinition(
                what=f"{called} was given {len(types)} types",
                hint="Give the type of the reply, or those of the argument and of the reply.",
            )
        self.name, self.takes_argument = name, len(types) > 1
        self.argument: Schema[A] = Schema.of(types[0] if self.takes_argument else type(None))
        self.result: Schema[R] = Schema.of(types[-1])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def encode(self, value: A) -> bytes:
        """Return what is sent, checked against the annotation."""
        return self.argument.cross(value, where=f"{self.kind} {self.name}")[0]

    def arguments(self, payload: bytes | None) -> tuple[Any, ...]:
        """Return what a handler is called with. Raises what a value that does not fit raises."""
        found = self.argument.decode(payload or b"null", where=f"{self.kind} {self.name}")
        return (found,) if self.takes_argument else ()

    def reply(self, value: R) -> bytes:
        """Return a handler's result as it is told to the caller."""
        return self.result.cross(value, where=f"result of {self.kind} {self.name}")[0]

    def read(self, payload: bytes | None) -> R:
        """Return what the caller gets."""
        return self.result.decode(payload or b"null", where=f"result of {self.kind} {self.name}")


class Query(Talk[A, R]):
    """A question to a run: `Query("status", Status)`, or with an argument
    `Query("item", str, Item)`.
    """

    __slots__ = ()

    kind = "query"

    @overload
    def __init__(self: Query[None, S], name: str, result: type[S], /) -> None: ...
    @overload
    def __init__(self, name: str, argument: type[A], result: type[R], /) -> None: ...
    def __init__(self, name: str, /, *types: Any) -> None:
        self._declare(name, types)


class BoundUpdate(NamedTuple, Generic[R]):
    """An update with what it carries, checked and ready to be sent."""

    update: Update[Any, R]
    payload: bytes
    id: str | None = None


class Update(Talk[A, R]):
    """A message with a reply: `Update("add", Item, Cart)`, or without an argument
    `Update("clear", Cart)`.
    """

    __slots__ = ()

    kind = "update"

    @overload
    def __init__(self: Update[None, S], name: str, result: type[S], /) -> None: ...
    @overload
    def __init__(self, name: str, argument: type[A], result: type[R], /) -> None: ...
    def __init__(self, name: str, /, *types: Any) -> None:
        self._declare(name, types)

    @overload
    def bind(self: Update[None, R], *, id: str | None = None) -> BoundUpdate[R]: ...
    @overload
    def bind(self, value: A, *, id: str | None = None) -> BoundUpdate[R]: ...
    def bind(self, value: Any = None, *, id: str | None = None) -> BoundUpdate[R]:
        """Return the update with what it carries, to be sent with a start.

        Give an `id` to make a repeat harmless.
        """
        return BoundUpdate(self, self.encode(value), id)
