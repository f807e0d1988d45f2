"""The parts of a value, each with the piece of path that leads to it."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

MISSING: Any = object()


def is_kind(value: Any, *kinds: type) -> bool:
    """Tell what `isinstance` tells, and leave the value's static type `Any`."""
    return isinstance(value, kinds)


def is_model(cls: Any) -> bool:
    """Tell whether a class is a pydantic model, without importing pydantic."""
    return hasattr(cls, "__pydantic_fields__") and hasattr(cls, "model_validate")


def key_step(key: object) -> str:
    """Return how a key of a dict looks in a path: `.name`, `[3]` or `['two words']`."""
    if isinstance(key, str) and key.isidentifier():
        return f".{key}"
    text = ascii(key)  # a lone surrogate must not break the message that reports it
    return f"[{text if len(text) <= 40 else text[:37] + '...'}]"


def item_step(sequence: object, index: int) -> str:
    """Return how an item of a list or tuple looks in a path: `[3]`, or `.name` in a NamedTuple."""
    names: tuple[str, ...] = getattr(type(sequence), "_fields", ())
    return f".{names[index]}" if index < len(names) else f"[{index}]"


def join(root: str, steps: str) -> str:
    """Return a whole path; with no root the first step stands for itself."""
    return root + steps if root else steps.removeprefix(".")


def has_fields(cls: Any) -> bool:
    """Tell whether a class is a dataclass or a model."""
    return is_model(cls) or dataclasses.is_dataclass(cls)


def field_names(cls: Any) -> tuple[str, ...]:
    """Return the names of the fields of a dataclass or a model."""
    if is_model(cls):
        return tuple(cls.__pydantic_fields__)
    return tuple(field.name for field in dataclasses.fields(cls))


def unlisted(model: Any) -> dict[str, Any]:
    """Return what a model holds beside its fields: extras and private attributes."""
    return {**(model.__pydantic_extra__ or {}), **(model.__pydantic_private__ or {})}


def attributes(value: object) -> Iterator[tuple[str, Any]]:
    """Yield what a dataclass instance or a model holds: fields, extras and private attributes."""
    cls = type(value)
    for name in field_names(cls):
        yield name, getattr(value, name, MISSING)
    if is_model(cls):
        yield from unlisted(value).items()


def parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the direct parts of a value; a value without parts yields nothing."""
    if is_kind(value, Mapping):
        for key, item in value.items():
            yield "{key}", key
            yield key_step(key), item
    elif is_kind(value, list, tuple, deque):
        for index, item in enumerate(value):
            yield item_step(value, index), item
    elif is_kind(value, set, frozenset):
        for item in value:
            yield "{item}", item
    elif has_fields(type(value)):
        yield from ((f".{name}", item) for name, item in attributes(value))


def locate(value: Any, part: Any, levels: int = 64) -> str | None:
    """Return the steps that lead to this very object inside a value, or None."""
    if value is part:
        return ""
    if levels == 0:
        return None
    for step, item in parts(value):
        rest = locate(item, part, levels - 1)
        if rest is not None:
            return step + rest
    return None


def follow(value: Any, location: tuple[int | str, ...]) -> tuple[str, Any]:
    """Return the steps of a pydantic error's location, and the part of the value there."""
    steps = ""
    for name in location:
        step, part = _descend(value, name)
        if part is not MISSING:  # what names no part is the tag of a union's member
            steps, value = steps + step, part
    return steps, value


def _descend(value: Any, name: int | str) -> tuple[str, Any]:
    if is_kind(value, Mapping):
        keys: dict[object, object] = {str(key): key for key in value}
        key = name if name in value else keys.get(name, MISSING)
        return key_step(key), value.get(key, MISSING)
    if isinstance(name, str):
        return f".{name}", getattr(value, name, MISSING)
    if is_kind(value, list, tuple, deque) and name < len(value):
        return item_step(value, name), value[name]
    return "", MISSING
