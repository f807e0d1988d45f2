"""How an exception of the user's own crosses from a step to the body that catches it.

No object crosses that line, so an exception is taken apart into *fields* and built anew. Its
fields are the parameters of its `__init__`, kept as attributes of the same names; an exception
that keeps none of them is built from its `args`. Which of the two applies is read from the class
when the step is registered, and a class that fits neither is refused there.
"""

from __future__ import annotations

import dis
import inspect
import json
from collections.abc import Iterable, Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple, cast, get_type_hints

from holdfast.errors import BadDefinition, InvalidValue
from holdfast.model.failures import said

FIELDS = "fields"
"""Where a failure's details keep an exception's fields, as JSON by their annotations."""

CLASS = "raises"
"""Where a failure's details keep the name of the class in `raises=[...]` they belong to."""

LOST = "not_raised"
"""Where a failure's details say why an exception listed in `raises=[...]` could not cross."""

_OPAQUE = (
    BaseExceptionGroup,
    StopIteration,
    StopAsyncIteration,
    UnicodeEncodeError,
    UnicodeDecodeError,
    UnicodeTranslateError,
)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Raisable(NamedTuple):
    """An exception class that crosses as itself. No `fields` means: built from its args."""

    type: type[Exception]
    fields: tuple[inspect.Parameter, ...]

    def take_apart(self, error: BaseException) -> object:
        """Return the fields of `error` as JSON natives. Raises if that would lose something."""
        if not self.fields:
            args = [_to_json(Any, value, self._where("args")) for value in error.args]
            self._compare(error, self.build(args), "args")
            return args
        hints = get_type_hints(self.type.__init__)
        names = [field.name for field in self.fields]
        fields = {
            name: _to_json(hints.get(name, Any), getattr(error, name), self._where(name))
            for name in names
        }
        again = self.build(fields)
        for name in names:
            self._compare(error, again, name)
        return fields

    def build(self, fields: object) -> Exception:
        """Return the exception that was taken apart. Raises `InvalidValue`."""
        positional, named = self._arguments(fields)
        try:
            return self.type(*positional, **named)
        except Exception as error:  # the user's own __init__ may raise anything
            raise InvalidValue(
                where=self._where("__init__"), path="fields", problem=f"{error!r}"
            ) from error

    def _arguments(self, fields: object) -> tuple[list[Any], dict[str, Any]]:
        if not self.fields:
            return cast("list[Any]", fields), {}
        hints = get_type_hints(self.type.__init__)
        stored = {
            name: _from_json(hints.get(name, Any), value, self._where(name))
            for name, value in cast("dict[str, Any]", fields).items()
        }
        positional: list[Any] = []
        # By position where possible: BaseException keeps only those in `args`, for its message.
        for field in self.fields:
            if field.kind is field.KEYWORD_ONLY or field.name not in stored:
                break
            positional.append(stored.pop(field.name))
        return positional, stored

    def _compare(self, error: BaseException, again: Exception, name: str) -> None:
        was, became = getattr(error, name), getattr(again, name)
        if was != became:
            raise InvalidValue(
                where=self._where(name),
                path=name,
                problem=f"{was!r} became {became!r} when the exception was built again",
            )

    def _where(self, name: str) -> str:
        return f"{self.type.__qualname__}.{name}"


def raisables(classes: Iterable[type[Exception]], step: str) -> Mapping[str, Raisable]:
    """Return what `raises=[...]` of a step means, by class name. Raises `BadDefinition`."""
    found: dict[str, Raisable] = {}
    for each in classes:
        name = getattr(each, "__qualname__", repr(each))
        fault = _problem_of(each)
        if name in found and fault is None:
            fault = ("is listed twice", "List each class once, and give each its own name.")
        if fault is not None:
            problem, hint = fault
            raise BadDefinition(what=f"Step {step!r}: {name} in raises {problem}", hint=hint)
        found[name] = Raisable(each, _fields_of(each))
    return found


def details_of(error: BaseException, listed: Mapping[str, Raisable]) -> dict[str, object]:
    """Return what a failure must hold so that `rebuild` gives `error` back."""
    known = {each.type: name for name, each in listed.items()}
    # A subclass nobody listed crosses as the nearest class that is, so that `except` still fits.
    nearest = next((known[base] for base in type(error).__mro__ if base in known), None)
    if nearest is None:
        return {}
    try:
        return {CLASS: nearest, FIELDS: listed[nearest].take_apart(error)}
    except Exception as problem:  # what it keeps is the user's own, and may raise anything
        return {LOST: said(problem)}


def rebuild(details: Mapping[str, object], listed: Mapping[str, Raisable]) -> Exception | None:
    """Return the exception `details_of` described, or None if it crosses as `StepFailed`."""
    raisable = listed.get(str(details.get(CLASS, "")))
    if raisable is None or FIELDS not in details:
        return None
    return raisable.build(details[FIELDS])


def _problem_of(each: Any) -> tuple[str, str] | None:
    """Return why a class cannot be rebuilt and what to write, or None if it can."""
    if not (inspect.isclass(each) and issubclass(each, Exception)):
        return "is no Exception class", "List classes derived from Exception."
    if each is Exception:
        return "is too wide", "List the classes the body catches; all others are StepFailed."
    if issubclass(each, _OPAQUE):
        hint = "Raise an exception of your own with annotated fields instead."
        return "cannot be rebuilt: its arguments are no plain values", hint
    named = [p for p in _parameters(each) if p.kind not in _VARIADIC]
    lost = _lost(each, named)
    if len(lost) == len(named) and not any(p.kind is p.KEYWORD_ONLY for p in named):
        return None  # it keeps nothing by name, and is built from its args
    if lost:
        hint = f"Write {'; '.join(f'self.{name} = {name}' for name in lost)}."
        return f"cannot be rebuilt: its __init__ does not keep {', '.join(lost)}", hint
    return _parameter_problem(_parameters(each))


def _parameter_problem(parameters: list[inspect.Parameter]) -> tuple[str, str] | None:
    for each in parameters:
        if each.kind in _VARIADIC:
            hint = "Name each parameter, with its annotation."
            return f"cannot be rebuilt: its __init__ takes *{each.name}", hint
        if each.annotation is each.empty:
            hint = f"Write its type, for example {each.name}: str."
            return f"cannot be rebuilt: {each.name} has no annotation", hint
    return None


def _fields_of(each: type[Exception]) -> tuple[inspect.Parameter, ...]:
    named = [p for p in _parameters(each) if p.kind not in _VARIADIC]
    return () if _lost(each, named) else tuple(named)


def _lost(each: type[Exception], parameters: list[inspect.Parameter]) -> list[str]:
    """Return the parameters that instances do not keep as attributes of the same name."""
    inits = [vars(base).get("__init__") for base in each.__mro__]
    kept = {name for init in inits if isinstance(init, FunctionType) for name in _stored(init)}
    kept.update(getattr(each, "__dataclass_fields__", {}))
    names = [p.name for p in parameters if p.name not in kept]
    return [
        name
        for name in names
        if not inspect.isdatadescriptor(inspect.getattr_static(each, name, None))
    ]


def _parameters(each: type[Exception]) -> list[inspect.Parameter]:
    if not isinstance(each.__init__, FunctionType):
        return []
    return list(inspect.signature(each.__init__).parameters.values())[1:]


def _stored(function: FunctionType) -> Iterator[str]:
    for instruction in dis.get_instructions(function):
        if instruction.opname == "STORE_ATTR":
            yield str(instruction.argval)


def _to_json(annotation: Any, value: object, where: str) -> object:
    # Imported late: building schemas imports pydantic, and defining steps must stay cheap.
    from holdfast.machine.values import Schema

    payload, _ = Schema.of(annotation).cross(value, where=where)
    return json.loads(payload)


def _from_json(annotation: Any, value: object, where: str) -> Any:
    from holdfast.machine.values import Schema

    return Schema.of(annotation).decode(json.dumps(value).encode(), where=where)
