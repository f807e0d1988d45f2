"""Core schemas of the simplest annotations, written down instead of asked for.

They are what pydantic's `TypeAdapter` would give. Its first use in a process looks through every
installed package for plugins, which takes longer than to resume a run.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

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
