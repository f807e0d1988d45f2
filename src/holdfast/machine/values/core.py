"""From annotations to pydantic's core schemas, made fit for a line that must not lose anything.

pydantic builds the schema; three things are changed in it, in nested classes too:

- bytes are base64, times are text and names are field names, whatever a class configures for its
  own clients
- validation is strict, so that "5" is never taken for 5
- sets are written in order: the order of a set of str changes with every start of the
  interpreter, and with it would change the digest of the arguments
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.machine.values.secrets import refuse_secret_type
from holdfast.machine.values.simple import simple_schema
from holdfast.machine.values.walk import is_kind

if TYPE_CHECKING:
    from pydantic_core import CoreSchema, SchemaSerializer, SchemaValidator

_CONFIG: Mapping[str, Any] = {
    "allow_inf_nan": False,
    "ser_json_bytes": "base64",
    "ser_json_inf_nan": "null",
    "ser_json_temporal": "iso8601",
    "ser_json_timedelta": "iso8601",
    "serialize_by_alias": False,
    "strict": True,
    "val_json_bytes": "base64",
    "validate_by_alias": False,
    "validate_by_name": True,
}

# Keys of a schema whose values belong to the user, not to the schema.
_OPAQUE = frozenset({"cls", "context", "default", "expected", "members", "metadata"})

# Kinds that do not inherit the configuration from around them.
_WITH_CONFIG = frozenset({"dataclass", "model", "typed-dict"})

_SCALARS: Mapping[str, type] = {"bool": bool, "int": int, "none": type(None), "str": str}

# Values of these can be compared by `marshal`. Not bytes: marshal cannot tell a bytearray apart.
_PLAIN = frozenset(_SCALARS) | {
    "any",
    "default",
    "definition-ref",
    "definitions",
    "dict",
    "float",
    "frozenset",
    "list",
    "literal",
    "nullable",
    "set",
    "tuple",
    "typed-dict",
    "typed-dict-field",
    "union",
}

# These may come back as an equal of another type: True is written as 1 where an int is annotated,
# and a frozenset is read as a set.
_LOOSE = frozenset({"bool", "float", "frozenset", "int", "literal", "set"})


class Core:
    """A schema ready for use; what reads and what writes is made when it is needed.

    `scalars` are the types whose values come back as themselves, unasked; `plain` promises that
    values consist of builtins only; `equal_is_same` that a value of just these which equals what
    came back has its types, too; `in_union` that there is a choice which may go wrong.
    """

    def __init__(self, source: Any, *, is_simple: bool) -> None:
        self.source: CoreSchema = source
        self._is_simple = is_simple
        if not is_simple and "is-instance" in self._kinds:
            refuse_secret_type(source)

    @cached_property
    def scalars(self) -> frozenset[type]:
        """See above."""
        return _scalars(self.source)

    @cached_property
    def plain(self) -> bool:
        """See above."""
        return self._kinds <= _PLAIN

    @cached_property
    def equal_is_same(self) -> bool:
        """See above."""
        return self.plain and self._kinds.isdisjoint(_LOOSE)

    @cached_property
    def in_union(self) -> bool:
        """See above."""
        return "union" in self._kinds or "tagged-union" in self._kinds

    @cached_property
    def serializer(self) -> SchemaSerializer:
        """What writes values."""
        from pydantic_core import SchemaSerializer

        # Prebuilt parts of nested models would bring back what `_refit` has changed.
        return SchemaSerializer(self._fit, _config(), _use_prebuilt=False)

    @cached_property
    def validator(self) -> SchemaValidator:
        """What reads values."""
        from pydantic_core import SchemaValidator

        return SchemaValidator(self._fit, _config(), _use_prebuilt=False)

    @cached_property
    def _kinds(self) -> frozenset[str]:
        return frozenset(_kinds(self.source))

    @cached_property
    def _fit(self) -> Any:
        source: Any = self.source
        if not self._is_simple:
            return _refit(source)
        # Builtins need no change, and neither do named arguments that are some.
        return {**source, "config": _config()} if source["type"] in _WITH_CONFIG else source


@dataclass(frozen=True, slots=True)
class Field:
    """One parameter of a function: its annotation, and whether a call may leave it out."""

    annotation: Any
    required: bool


def core_of(annotation: Any) -> Core:
    """Build the schema of one annotation. Raises pydantic's errors for what it cannot handle."""
    simple = simple_schema(annotation)
    return Core(simple or _ask_pydantic(annotation), is_simple=simple is not None)


def core_of_arguments(fields: Mapping[str, Field]) -> tuple[Core, tuple[type | None, ...]]:
    """Build the schema of named arguments, and the one exact type of each that has one."""
    items, shared, is_simple = _items_of([field.annotation for field in fields.values()])
    named: Any = {
        "type": "typed-dict",
        "extra_behavior": "forbid",
        "fields": {
            name: {"type": "typed-dict-field", "schema": item, "required": field.required}
            for (name, field), item in zip(fields.items(), items, strict=True)
        },
    }
    if shared is not None:
        named = {"type": "definitions", "schema": named, "definitions": shared}
    return Core(named, is_simple=is_simple), tuple(_only(_scalars(item)) for item in items)


def _items_of(annotations: list[Any]) -> tuple[list[Any], list[Any] | None, bool]:
    """Return the schema of each annotation, the definitions that they share if they do, and
    whether all of them are simple."""
    simple = [simple_schema(annotation) for annotation in annotations]
    if None not in simple:
        return simple, None, True
    # A tuple collects what the annotations share (recursive classes) in one schema.
    source = _ask_pydantic(tuple[tuple(annotations)])  # type: ignore[misc]
    if source["type"] == "definitions":
        return source["schema"]["items_schema"], source["definitions"], False
    return source["items_schema"], None, False


def _ask_pydantic(annotation: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter[Any](annotation).core_schema


def _config() -> Any:
    return dict(_CONFIG)


def _refit(node: Any) -> Any:
    if is_kind(node, list, tuple):
        return type(node)(_refit(item) for item in node)
    if not is_kind(node, dict):
        return node
    schema: dict[str, Any] = {
        key: part if _is_opaque(node, key) else _refit(part) for key, part in node.items()
    }
    if schema.get("type") in _WITH_CONFIG:
        schema["config"] = {**schema.get("config", {}), **_CONFIG}
    if schema.get("type") in ("set", "frozenset") and "serialization" not in schema:
        schema["serialization"] = {
            "type": "function-wrap",
            "function": _in_order,
            "when_used": "json",
        }
    return schema


def _is_opaque(node: Any, key: str) -> bool:
    # A node without a type is a table of fields, and a field may have any name.
    return key in _OPAQUE and isinstance(node.get("type"), str)


def _in_order(items: Any, write: Any) -> Any:
    from pydantic_core import to_json

    written = write(items)
    return sorted(written, key=to_json) if is_kind(written, list) else written


def _kinds(node: Any) -> Iterator[str]:
    if is_kind(node, list, tuple):
        for item in node:
            yield from _kinds(item)
    elif is_kind(node, dict):
        kind = node.get("type")
        if isinstance(kind, str):
            yield kind
        for key, part in node.items():
            if not _is_opaque(node, key):
                yield from _kinds(part)


def _scalars(schema: Any) -> frozenset[type]:
    """Return the scalar types that a schema takes as they are, without any constraint."""
    kind, details = schema["type"], schema.keys() - {"type", "metadata"}
    if kind == "any":
        return frozenset(_SCALARS.values())
    if kind in _SCALARS and not details:
        return frozenset({_SCALARS[kind]})
    if kind == "nullable" and details == {"schema"}:
        inner = _scalars(schema["schema"])
        return inner | {type(None)} if inner else inner
    return frozenset()


def _only(types: frozenset[type]) -> type | None:
    return next(iter(types)) if len(types) == 1 else None
