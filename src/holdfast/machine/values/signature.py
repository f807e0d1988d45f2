"""The parameters of a step or workflow function, and how a call of it crosses the line.

A payload is one JSON object by parameter name, in the order of the parameters, defaults filled in:
`f(1)` and `f(x=1)` give the same bytes, and a parameter that was added later with a default does
not make an old payload unreadable. `*args` is a list under its name, `**kwargs` an object.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from inspect import Parameter
from typing import Any

from holdfast.errors import BadDefinition, InvalidArguments
from holdfast.machine.values.codec import Codec, invalid, is_harmless
from holdfast.machine.values.core import Core, Field, core_of_arguments
from holdfast.machine.values.schema import (
    Schema,
    bad_annotation,
    canonical,
    digest,
    json_schema_of,
    text_of,
)
from holdfast.machine.values.simple import Slot, simple_hints, simple_json_schema, simple_slots
from holdfast.machine.values.single import Write, left, nothing, writer_of

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class Signature:
    """The parameters of a step or workflow function, and its result."""

    def __init__(
        self,
        name: str,
        order: Sequence[Parameter | Slot],
        hints: Mapping[str, Any],
        function: Callable[..., Any],
    ) -> None:
        self.name, self._function = name, function
        self.result: Schema[Any] = Schema.of(hints.get("return", Any))
        self._where = f"arguments of {name}"
        self._order = tuple(order)
        self._names = tuple(parameter.name for parameter in order)
        self._defaults = {p.name: p.default for p in order if p.default is not Parameter.empty}
        kinds = {parameter.kind for parameter in self._order}
        # With these, calls can be bound by hand; -1 never equals a number of arguments.
        self._named_only = kinds <= {Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY}
        self._positional = sum(p.kind in _POSITIONAL for p in self._order)
        self._arity = len(self._order) if kinds <= set(_POSITIONAL) else -1
        self._core, exact = self._build(hints)
        # Arguments of just these types come back as themselves, unasked.
        self._exact = None if None in exact else exact
        self.quickly: Write = nothing if self._arity == 0 else left
        if self._arity == 1:
            self.quickly = writer_of(self._names[0], exact[0])
        """Writes positional arguments as `encode` does, or leaves them to it."""

    @functools.cached_property
    def _codec(self) -> Codec:
        return Codec(self._core)

    @functools.cached_property
    def _parameters(self) -> inspect.Signature:
        """What knows how to bind a call; the object that a method is called on is no part of it."""
        whole = inspect.signature(self._function)
        return whole.replace(parameters=[whole.parameters[name] for name in self._names])

    @classmethod
    def of(
        cls, function: Callable[..., Any], *, names: Mapping[str, Any] | None = None
    ) -> Signature:
        """Return the signature of a function.

        `names` are additional names its annotations may use, such as the locals of the function it
        is defined in. Raises `BadDefinition` for a method, for a name that cannot be resolved, and
        for a type that cannot be stored.
        """
        name = getattr(function, "__qualname__", type(function).__qualname__)
        name = name.rpartition("<locals>.")[2]
        order: Sequence[Parameter | Slot] | None = simple_slots(function)
        if order is None:
            if not isinstance(inspect.unwrap(function), types.FunctionType):
                raise BadDefinition(
                    what=f"{name} is no plain function",
                    hint=f"Write `def {name.rpartition('.')[2]}(...)` and register that.",
                )
            order = [*inspect.signature(function).parameters.values()]
        _refuse_methods(name, order)
        signature = cls(name, order, _hints(name, function, names or {}), function)
        try:
            _ = signature.result.core
        except BadDefinition as error:
            cause = error.__cause__ if isinstance(error.__cause__, Exception) else error
            raise bad_annotation(f"The result of {name}", cause) from error
        return signature

    @classmethod
    def of_method(
        cls, function: Callable[..., Any], *, names: Mapping[str, Any] | None = None
    ) -> Signature:
        """Return the signature of a method as its caller sees it: without the object."""
        name = function.__qualname__.rpartition("<locals>.")[2]
        rest = [*inspect.signature(function).parameters.values()][1:]
        return cls(name, rest, _hints(name, function, names or {}), function)

    @functools.cached_property
    def schema(self) -> bytes:
        """The 8 bytes by which the parameters are recognised: names, order and types."""
        order = ",".join(self._names).encode()
        shape = simple_json_schema(self._core.source)
        return digest(order + b"\n" + canonical(self.json_schema() if shape is None else shape))

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the payload."""
        return json_schema_of(self._core)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes:
        """Return the canonical JSON of a call, sure to come back the same.

        Raises `InvalidArguments` for a call the function would not take, `Unserialisable` and
        `PayloadTooLarge`.
        """
        if kwargs or len(args) != self._arity:
            given = self._bind(args, kwargs)
            args = (*given.values(),)
        else:
            given = dict(zip(self._names, args))  # noqa: B905 - as long as each other
        if (*map(type, args),) == self._exact:
            try:
                payload = self._core.serializer.to_json(given)
            except ValueError:  # a lone surrogate; `Codec.cross` finds the words
                payload = b""
            if payload and is_harmless(payload):
                return payload
        return self._codec.cross(given, self._where, "")[0]

    def unchanged(self, args: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Return the arguments of a call that was encoded, if `decode` would give the same."""
        return args if (*map(type, args),) == self._exact else None

    def decode(self, payload: bytes) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return what to call the function with. Raises `InvalidValue`."""
        try:
            given = self._core.validator.validate_json(payload)
        except ValueError as error:
            raise invalid(error, self._where, "") from None
        if len(given) == self._arity:
            return tuple(given.values()), {}
        return self._unbind(given)

    def sendable(self, payload: bytes) -> bytes:
        """Return the arguments of an ask as another process can read them."""
        return payload

    def _build(self, hints: Mapping[str, Any]) -> tuple[Core, tuple[type | None, ...]]:
        from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

        fields = {p.name: _field(p, hints.get(p.name, Any)) for p in self._order}
        try:
            return core_of_arguments(fields)
        except (PydanticUserError, PydanticUndefinedAnnotation, NameError) as error:
            guilty = next((n for n in fields if not _is_usable(fields[n])), "?")
            annotation = text_of(fields[guilty].annotation) if guilty in fields else "?"
            subject = f"Parameter {guilty!r} of {self.name} (`{annotation}`)"
            raise bad_annotation(subject, error) from error

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        names = self._names
        if self._named_only and len(args) <= self._positional:
            given = {**self._defaults, **dict(zip(names, args, strict=False)), **kwargs}
            is_repeated = not kwargs.keys().isdisjoint(names[: len(args)])
            if not is_repeated and given.keys() == self._parameters.parameters.keys():
                return {name: given[name] for name in names}
        try:
            bound = self._parameters.bind(*args, **kwargs)
        except TypeError as error:
            call = f"{self.name}{self._parameters}"
            raise InvalidArguments(
                where=self._where, path=call, problem=str(error), hint=InvalidArguments.hint
            ) from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def _unbind(self, given: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        for parameter in self._order:
            name, kind = parameter.name, parameter.kind
            if kind is Parameter.VAR_POSITIONAL:
                args.extend(given.get(name, ()))
            elif kind is Parameter.VAR_KEYWORD:
                kwargs.update(given.get(name, {}))
            elif kind is Parameter.KEYWORD_ONLY:
                kwargs[name] = given.get(name, parameter.default)
            else:
                args.append(given.get(name, parameter.default))
        return tuple(args), kwargs


def _field(parameter: Parameter | Slot, annotation: Any) -> Field:
    inner = typing.get_args(annotation)
    if parameter.kind is Parameter.VAR_POSITIONAL:
        unpacked = typing.get_origin(annotation) is typing.Unpack
        annotation = inner[0] if unpacked else tuple[annotation, ...]
        return Field(annotation, required=False)
    if parameter.kind is Parameter.VAR_KEYWORD:
        unpacked = typing.get_origin(annotation) is typing.Unpack
        annotation = inner[0] if unpacked else dict[str, annotation]
        return Field(annotation, required=False)
    return Field(annotation, required=parameter.default is Parameter.empty)


def _is_usable(field: Field) -> bool:
    try:
        Schema(field.annotation).build()
    except BadDefinition:
        return False
    return True


def _refuse_methods(name: str, order: Sequence[Parameter | Slot]) -> None:
    first = order[0].name if order else ""
    if first in ("self", "cls"):
        raise BadDefinition(
            what=f"{name} takes {first!r}, so it is a method",
            hint=(
                "An object does not outlive a crash. Write a plain function and pass it what it "
                "needs; connections and clients belong in a module or in the step itself."
            ),
        )


def _hints(name: str, function: Any, names: Mapping[str, Any]) -> dict[str, Any]:
    if (simple := simple_hints(function, names)) is not None:
        return simple
    known = dict(names)
    try:
        return typing.get_type_hints(function, localns=known or None, include_extras=True)
    except (NameError, SyntaxError, TypeError, AttributeError):
        pass  # look again, one by one, for the name of the parameter
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    hints: dict[str, Any] = {}
    for parameter, annotation in function.__annotations__.items():
        holder = types.SimpleNamespace(__annotations__={parameter: annotation})
        try:
            hints |= typing.get_type_hints(holder, scope, known, include_extras=True)
        except (NameError, SyntaxError, TypeError, AttributeError) as error:
            raise _unresolved(name, parameter, annotation, error) from error
    return hints


def _unresolved(name: str, parameter: str, annotation: Any, error: Exception) -> BadDefinition:
    subject = "The result" if parameter == "return" else f"Parameter {parameter!r}"
    return BadDefinition(
        what=f"{subject} of {name} is annotated {annotation!r}, which cannot be resolved: {error}",
        hint=(
            "Import the name at run time (not under TYPE_CHECKING) and define it at the top "
            "level of the module, not inside a function."
        ),
    )
