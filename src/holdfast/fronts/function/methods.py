"""Methods of entities that others call: what they carry, and what calls them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from types import MethodType
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, cast, overload

from holdfast.errors import BadDefinition
from holdfast.fronts.function.naming import check_name, described, local_names
from holdfast.machine.talk import BoundUpdate, Query, Update
from holdfast.machine.values import Signature

E = TypeVar("E")
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Method(Generic[E, P, R_co]):
    """A method of an entity that others call, by the name it has in its class."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(cast("Any", self), function, updated=())
        self.function = function
        self.name = check_name(function.__name__, "Method name")
        self._names = local_names(function)

    def __repr__(self) -> str:
        return f"<method {self.name}>"

    @functools.cached_property
    def signature(self) -> Signature:
        """How arguments and result are stored. Made at first use: it imports pydantic."""
        return Signature.of_method(self.function, names=self._names)


def bound_to(instance: object, function: Callable[..., Any]) -> Any:
    """Return a function as a method of this object."""
    return MethodType(function, instance)


class UpdateMethod(Method[E, P, R_co]):
    """A method that may change the state. Made by `@hf.update`."""

    check: Callable[..., Any] | None = None

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: E, owner: type[Any]) -> Callable[P, Coroutine[Any, Any, R_co]]: ...
    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        return self if instance is None else bound_to(instance, self.function)

    def validator(
        self, function: Callable[Concatenate[E, P], None]
    ) -> Callable[Concatenate[E, P], None]:
        """Mark a plain method that refuses the update by raising, before anything is recorded."""
        if self.check is not None:
            raise BadDefinition(
                what=f"Update {self.name!r} has a validator already: {described(self.check)}",
                hint="Have one check all of it.",
            )
        self.check = function
        return function

    @functools.cached_property
    def talk(self) -> Update[Any, R_co]:
        """The update it is to a run."""
        return _UpdateCalls(self.name, self.signature)

    def bound(self, args: tuple[Any, ...], kwargs: dict[str, Any], id: str | None) -> Any:
        """Return the update with its arguments, checked and encoded."""
        return BoundUpdate(self.talk, self.signature.encode(args, kwargs), id)


class QueryMethod(Method[E, P, R_co]):
    """A method that looks at the state. Made by `@hf.query`."""

    @overload
    def __get__(self, instance: None, owner: type[Any]) -> Self: ...
    @overload
    def __get__(self, instance: E, owner: type[Any]) -> Callable[P, R_co]: ...
    def __get__(self, instance: Any, owner: type[Any]) -> Any:
        return self if instance is None else bound_to(instance, self.function)

    @functools.cached_property
    def talk(self) -> Query[Any, R_co]:
        """The query it is to a run."""
        return _QueryCalls(self.name, self.signature)


class _UpdateCalls(Update[Any, R]):
    """An update that carries the arguments of a method. Its handler is given them as one call."""

    __slots__ = ("_signature",)

    def __init__(self, name: str, signature: Signature) -> None:
        self.name, self.takes_argument = name, True
        self.result, self._signature = signature.result, signature

    def encode(self, value: Any) -> bytes:
        """Return what is sent: a call, as its arguments by name."""
        args, kwargs = value
        return self._signature.encode(args, kwargs)

    def arguments(self, payload: bytes | None) -> tuple[Any, ...]:
        """Return the call, as one argument of the handler."""
        return (self._signature.decode(payload or b"{}"),)


class _QueryCalls(Query[Any, R]):
    """A query that carries the arguments of a method, as `_UpdateCalls` does."""

    __slots__ = ("_signature",)

    def __init__(self, name: str, signature: Signature) -> None:
        self.name, self.takes_argument = name, True
        self.result, self._signature = signature.result, signature

    def encode(self, value: Any) -> bytes:
        """Return what is sent: a call, as its arguments by name."""
        args, kwargs = value
        return self._signature.encode(args, kwargs)

    def arguments(self, payload: bytes | None) -> tuple[Any, ...]:
        """Return the call, as one argument of the handler."""
        return (self._signature.decode(payload or b"{}"),)
