"""Core schemas of the simplest annotations, written down instead of asked for.

They are what pydantic's `TypeAdapter` would give. Its first use in a process looks through every
installed package for plugins, which takes longer than to resume a run.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from inspect import CO_VARARGS, CO_VARKEYWORDS, Parameter
from typing import Any, NamedTuple

_ATOMS: Mapping[Any, str] = {
    bool: "bool", bytes: "bytes", float: "float", int: "int", str: "str",
    None: "none", types.NoneType: "none", Any: "any", object: "any",
}  # fmt: skip


def simple_schema(annotation: Any) -> dict[str, Any] | None:
    """Return the core schema of an annotation made of builtins; None to have pydantic build it."""
    origin = typing.get_origin(annotation)
    if origin is not None:
        shape = _SHAPES.get(origin)
        parts = [simple_schema(part) for part in typing.get_args(annotation)]
        return None if shape is None or None in parts else shape(*parts)
    try:
        kind = _ATOMS.get(annotation)
    except TypeError:  # it has no hash
        return None
    return None if kind is None else {"type": kind}


class Slot(NamedTuple):
    """A parameter that takes one argument, by its place or its name."""

    name: str
    default: Any
    kind: Any = Parameter.POSITIONAL_OR_KEYWORD


def simple_slots(function: Any) -> list[Slot] | None:
    """Return the parameters of a function if they are of that kind; None to have them inspected."""
    if type(function) is not types.FunctionType or vars(function).keys() & _DISGUISES:
        return None
    code = function.__code__
    if code.co_flags & _MORE or code.co_kwonlyargcount or code.co_posonlyargcount:
        return None
    names, defaults = code.co_varnames[: code.co_argcount], function.__defaults__ or ()
    given = [Parameter.empty] * (len(names) - len(defaults)) + [*defaults]
    return [Slot(name, default) for name, default in zip(names, given, strict=True)]


_DISGUISES = frozenset({"__wrapped__", "__signature__"})
_MORE = CO_VARARGS | CO_VARKEYWORDS

_TEXTS: Mapping[str, Any] = {
    "int": int, "str": str, "float": float, "bool": bool, "bytes": bytes, "None": types.NoneType,
    "object": object, "list[int]": list[int], "list[str]": list[str],
    "dict[str, int]": dict[str, int], "dict[str, object]": dict[str, object],
    "dict[str, str]": dict[str, str],
}  # fmt: skip
_BUILTINS = frozenset({"bool", "bytes", "dict", "float", "int", "list", "object", "str"})


def simple_hints(function: Any, names: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the annotations of a function if all are made of builtins; None to have typing look.

    Which takes as long as all else that is done with a simple function.
    """
    if hasattr(function, "__wrapped__"):
        return None
    if not (_BUILTINS.isdisjoint(function.__globals__) and _BUILTINS.isdisjoint(names)):
        return None  # there they may mean something else
    found: dict[str, Any] = {}
    for name, annotation in function.__annotations__.items():
        known = _TEXTS.get(annotation) if isinstance(annotation, str) else None
        if known is None:
            return None
        found[name] = known
    return found


def _list(items: Any) -> dict[str, Any]:
    return {"type": "list", "items_schema": items}


def _dict(keys: Any, values: Any) -> dict[str, Any]:
    return {"type": "dict", "keys_schema": keys, "values_schema": values}


def _union(*choices: Any) -> dict[str, Any] | None:
    """Return the schema of `X | None`; other unions have rules of their own."""
    others = [choice for choice in choices if choice["type"] != "none"]
    if len(choices) != 2 or len(others) != 1:
        return None
    return {"type": "nullable", "schema": others[0]}


_SHAPES: Mapping[Any, Callable[..., dict[str, Any] | None]] = {
    dict: _dict, list: _list, types.UnionType: _union, typing.Union: _union,
}  # fmt: skip


_NAMES: Mapping[str, Any] = {
    "any": {}, "bool": {"type": "boolean"}, "float": {"type": "number"},
    "int": {"type": "integer"}, "none": {"type": "null"}, "str": {"type": "string"},
    "bytes": {"type": "string", "format": "binary"},
}  # fmt: skip


def simple_json_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the JSON Schema of a core schema made of builtins, without its titles.

    That is what pydantic's generator gives, which takes long to begin; None to have it do this.
    """
    kind = schema.get("type", "")
    described = _DESCRIBED.get(kind)
    if described is not None:
        keys, describe = described
        return describe(schema) if set(schema) == keys else None
    return _NAMES.get(kind) if len(schema) == 1 else None


def _describe_list(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    items = simple_json_schema(schema["items_schema"])
    return None if items is None else {"type": "array", "items": items}


def _describe_dict(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    values = simple_json_schema(schema["values_schema"])
    if values is None or schema["keys_schema"] != {"type": "str"}:
        return None
    return {"type": "object", "additionalProperties": values or True}


def _describe_nullable(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    inner = simple_json_schema(schema["schema"])
    return None if inner is None else {"anyOf": [inner, _NAMES["none"]]}


def _describe_arguments(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    fields: Mapping[str, Any] = schema["fields"]
    if any(set(field) != _FIELD for field in fields.values()):
        return None
    properties = {name: simple_json_schema(field["schema"]) for name, field in fields.items()}
    if None in properties.values():
        return None
    required = [name for name, field in fields.items() if field["required"]]
    found = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**found, "required": required} if required else found


_FIELD = {"type", "schema", "required"}
_DESCRIBED: Mapping[str, tuple[set[str], Callable[[Mapping[str, Any]], dict[str, Any] | None]]] = {
    "dict": ({"type", "keys_schema", "values_schema"}, _describe_dict),
    "list": ({"type", "items_schema"}, _describe_list),
    "nullable": ({"type", "schema"}, _describe_nullable),
    "typed-dict": ({"type", "extra_behavior", "fields"}, _describe_arguments),
}
