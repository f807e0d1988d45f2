"""Whether a JSON value has the shape a JSON Schema asks for.

For processes that do not have the code: they know the schema that was stored with a question. Of
JSON Schema it knows what describes shape (types, fields, members, alternatives, limits); formats
and patterns are left to the code that reads the value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

DEEPEST = 64
SHOWN = 60

Problem = tuple[str, str]
"""Where, and what is wrong there."""

TYPES: Mapping[str, Callable[[Any], bool]] = {
    "null": lambda value: value is None,
    "boolean": lambda value: isinstance(value, bool),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "string": lambda value: isinstance(value, str),
    "array": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}

LIMITS: Mapping[str, tuple[str, Callable[[Any, Any], bool]]] = {
    "minimum": ("must be at least {}", lambda value, limit: value >= limit),
    "maximum": ("must be at most {}", lambda value, limit: value <= limit),
    "exclusiveMinimum": ("must be above {}", lambda value, limit: value > limit),
    "exclusiveMaximum": ("must be below {}", lambda value, limit: value < limit),
    "minLength": ("must have at least {} characters", lambda value, limit: len(value) >= limit),
    "maxLength": ("must have at most {} characters", lambda value, limit: len(value) <= limit),
    "minItems": ("must have at least {} members", lambda value, limit: len(value) >= limit),
    "maxItems": ("must have at most {} members", lambda value, limit: len(value) <= limit),
}
OF_TYPE = {"inimum": "number", "aximum": "number", "Length": "string", "Items": "array"}
"""What kind of value the limits with this ending are about."""


def misfit(schema: Mapping[str, Any], value: Any, *, root: str = "answer") -> Problem | None:
    """Return the first place where a value does not fit, and why; None if it fits."""
    return _misfit(schema, value, root, schema, 0)


def wanted(schema: Mapping[str, Any]) -> str:
    """Say in a few words what fits: `true or false`, `one of "yes", "no"`, `an object`."""
    found = _resolved(schema, schema)
    if "const" in found:
        return _shown(found["const"])
    if "enum" in found:
        return f"one of {', '.join(map(_shown, found['enum']))}"
    parts = found.get("anyOf") or found.get("oneOf")
    if parts:
        return " or ".join(dict.fromkeys(wanted({**part, **_defs(schema)}) for part in parts))
    words = {
        "boolean": "true or false", "string": "a text", "integer": "a whole number",
        "number": "a number", "array": "a list", "null": "null",
    }  # fmt: skip
    if found.get("type") == "object":
        fields = ", ".join(found.get("properties", {}))
        return f"an object with {fields}" if fields else "an object"
    return words.get(str(found.get("type", "")), "any JSON")


def _misfit(
    schema: Mapping[str, Any] | bool, value: Any, path: str, root: Mapping[str, Any], depth: int
) -> Problem | None:
    if isinstance(schema, bool):
        return None if schema else (path, "nothing may stand here")
    if depth > DEEPEST:
        return path, f"nested deeper than {DEEPEST} levels"
    found = _resolved(schema, root)
    for part in found.get("allOf", ()):
        if problem := _misfit(part, value, path, root, depth + 1):
            return problem
    choices = found.get("anyOf") or found.get("oneOf")
    if choices and all(_misfit(part, value, path, root, depth + 1) for part in choices):
        return path, f"{_shown(value)} is not {wanted({**found, **_defs(root)})}"
    return (
        _wrong_value(found, value, path)
        or _wrong_limit(found, value, path)
        or _wrong_members(found, value, path, root, depth)
        or _wrong_fields(found, value, path, root, depth)
    )


def _wrong_value(schema: Mapping[str, Any], value: Any, path: str) -> Problem | None:
    if "const" in schema and not _same(value, schema["const"]):
        return path, f"{_shown(value)} is not {_shown(schema['const'])}"
    if "enum" in schema and not any(_same(value, each) for each in schema["enum"]):
        return path, f"{_shown(value)} is not {wanted(schema)}"
    kinds = schema.get("type", ())
    listed = (kinds,) if isinstance(kinds, str) else tuple(kinds)
    if listed and not any(TYPES[kind](value) for kind in listed if kind in TYPES):
        return path, f"{_shown(value)} is not {wanted(schema)}"
    return None


def _wrong_limit(schema: Mapping[str, Any], value: Any, path: str) -> Problem | None:
    for name, (words, holds) in LIMITS.items():
        kind = next(kind for ending, kind in OF_TYPE.items() if name.endswith(ending))
        if name in schema and TYPES[kind](value) and not holds(value, schema[name]):
            return path, f"{_shown(value)} {words.format(schema[name])}"
    return None


def _wrong_members(
    schema: Mapping[str, Any], value: Any, path: str, root: Mapping[str, Any], depth: int
) -> Problem | None:
    if not isinstance(value, list):
        return None
    members = cast("Sequence[Any]", value)
    first: Sequence[Any] = schema.get("prefixItems", ())
    rest = schema.get("items", True)
    for place, member in enumerate(members):
        wanted_here = first[place] if place < len(first) else rest
        if problem := _misfit(wanted_here, member, f"{path}[{place}]", root, depth + 1):
            return problem
    return None


def _wrong_fields(
    schema: Mapping[str, Any], value: Any, path: str, root: Mapping[str, Any], depth: int
) -> Problem | None:
    if not isinstance(value, dict):
        return None
    fields, known = cast("Mapping[str, Any]", value), schema.get("properties", {})
    missing = [name for name in schema.get("required", ()) if name not in fields]
    if missing:
        return path, f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing"
    others = schema.get("additionalProperties", True)
    for name, member in fields.items():
        place = f"{path}.{name:.60}"
        if name not in known and others is False:
            return place, f"there is no such field; there are {', '.join(known) or 'none'}"
        if problem := _misfit(known.get(name, others), member, place, root, depth + 1):
            return problem
    return None


def _resolved(schema: Mapping[str, Any], root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow references into the schema's own definitions; others are not looked at."""
    for _ in range(DEEPEST):
        name = str(schema.get("$ref", "")).removeprefix("#/$defs/")
        if not name:
            return schema
        schema = _defs(root).get("$defs", {}).get(name, {})
    return {}


def _defs(root: Mapping[str, Any]) -> dict[str, Any]:
    return {"$defs": root["$defs"]} if "$defs" in root else {}


def _same(value: Any, other: Any) -> bool:
    return type(value) is type(other) and bool(value == other)


def _shown(value: Any) -> str:
    import json

    told = json.dumps(value, ensure_ascii=False)
    return told if len(told) <= SHOWN else f"{told[:SHOWN]}…"
