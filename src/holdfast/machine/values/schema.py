"""One annotation, and how its values cross the line."""

from __future__ import annotations

import json
from collections.abc import Callable
from hashlib import blake2b
from inspect import Parameter
from typing import Any, Generic, Never, NoReturn, TypeVar

from holdfast.errors import BadDefinition
from holdfast.machine.values.codec import Codec, invalid, is_harmless
from holdfast.machine.values.core import Core, core_of
from holdfast.machine.values.walk import is_kind

T = TypeVar("T")

_cache: dict[tuple[Any, str], Schema[Any]] = {}

_NATIVE = (str, int, float, bool, list, dict, type(None))
_AS_ANY = (Parameter.empty, NoReturn, Never)

# Words for people: they may change while every payload stays readable.
_PROSE = frozenset({"default", "deprecated", "description", "examples", "title"})
_TABLES = frozenset({"$defs", "patternProperties", "properties"})
_UNORDERED = frozenset({"anyOf", "enum", "oneOf", "required"})


new_digest = blake2b(digest_size=8).copy
"""Makes what digests a payload, at three quarters of the price of a new one."""


def digest(payload: bytes) -> bytes:
    """Return the 8 bytes by which a payload is recognised."""
    hashed = new_digest()
    hashed.update(payload)
    return hashed.digest()


class Schema(Generic[T]):
    """How values of one annotation cross the line.

    The first word of `where` starts the paths in messages: with `where="result of charge#2"` they
    look like `result.items[3].price`, and the error is `UnserialisableResult`.
    """

    __slots__ = (
        "_codec", "_core", "_digest", "_scalars", "_to_json", "annotation", "read",
    )  # fmt: skip

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self._core: Core | None = None
        self._codec: Codec | None = None
        self._digest: bytes | None = None
        self._scalars: frozenset[type] = frozenset()
        self.read: Callable[[bytes], T] | None = None
        """Returns the value of a payload, or raises `ValueError`: as `decode` does, if no code of
        users has a part in that, and it was done once."""

    @classmethod
    def of(cls, annotation: Any) -> Schema[Any]:
        """Return the schema of an annotation; a missing one counts as `Any`."""
        if any(annotation is empty for empty in _AS_ANY):
            annotation = Any
        # `int | str` equals `str | int`, but is another schema.
        key = (annotation, repr(annotation))
        try:
            return _cache.setdefault(key, cls(annotation))
        except TypeError:  # metadata of Annotated need not be hashable
            return cls(annotation)

    @property
    def digest(self) -> bytes:
        """The 8 bytes by which the shape of this annotation is recognised."""
        if self._digest is None:
            self._digest = digest(canonical(self.json_schema()))
        return self._digest

    @property
    def core(self) -> Core:
        """What pydantic knows of it. Raises `BadDefinition` for what that cannot handle."""
        if self._core is None:
            from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError

            try:
                self._core = core_of(self.annotation)
            except (PydanticUserError, PydanticUndefinedAnnotation, NameError) as error:
                told = f"The annotation `{text_of(self.annotation)}`"
                raise bad_annotation(told, error) from error
        return self._core

    def build(self) -> Codec:
        """Make ready for use. Raises `BadDefinition` for what pydantic cannot handle."""
        if self._codec is None:
            core = self.core
            self._scalars, self._to_json = core.scalars, core.serializer.to_json
            self._codec = Codec(core)
        return self._codec

    def encode(self, value: T, *, where: str) -> bytes:
        """Return the canonical JSON of a value, sure to come back the same. Raises like `cross`."""
        return self.cross(value, where=where)[0]

    def written(self, value: T) -> bytes:
        """Return the canonical JSON of a value that has crossed before."""
        if self._codec is None:
            self.build()
        return self._to_json(value)

    def decode(self, payload: bytes, *, where: str) -> T:
        """Return the value of a payload. Raises `InvalidValue`."""
        read = self.core.validator.validate_json
        try:
            value: T = read(payload)
        except ValueError as error:
            raise invalid(error, where, where.partition(" ")[0]) from None
        if self.core.plain:
            self.read = read
        return value

    def cross(self, value: T, *, where: str) -> tuple[bytes, T]:
        """Return the canonical JSON of a value, and the value as the other side gets it.

        Raises `Unserialisable` if they would differ, and `PayloadTooLarge`.
        """
        codec = self._codec or self.build()
        if type(value) in self._scalars:
            try:
                payload = self._to_json(value)
            except ValueError:  # a lone surrogate; `Codec.cross` finds the words
                payload = b""
            if payload and is_harmless(payload):
                return payload, value
        return codec.cross(value, where, where.partition(" ")[0])

    def json_schema(self) -> dict[str, Any]:
        """Return the JSON Schema, for those who validate without importing this code."""
        return json_schema_of(self.core)


def encoded(value: object, *, where: str) -> bytes:
    """Return the JSON of a value that is given without an annotation, by its own type."""
    kind: Any = type(value)
    return Schema.of(Any if kind in _NATIVE else kind).encode(value, where=where)


def json_schema_of(core: Core) -> dict[str, Any]:
    """Return the JSON Schema of a core schema; what has none is left open."""
    from holdfast.machine.values.describe import Describer

    return Describer(by_alias=False).generate(core.source, mode="validation")


def canonical(schema: Any) -> bytes:
    """Return bytes that stay the same unless the shape of the payloads changes."""
    return json.dumps(_bare(schema), sort_keys=True, separators=(",", ":")).encode()


def _bare(node: Any, *, table: bool = False) -> Any:
    if is_kind(node, list):
        return [_bare(item) for item in node]
    if not is_kind(node, dict):
        return node
    bare: dict[str, Any] = {}
    for key, part in node.items():
        if table:  # names of the user's fields, of which one may well be `title`
            bare[key] = _bare(part)
        elif key in _UNORDERED:
            bare[key] = sorted((_bare(item) for item in part), key=canonical_key)
        elif key not in _PROSE:
            bare[key] = _bare(part, table=key in _TABLES)
    return bare


def canonical_key(item: Any) -> str:
    """Return the text by which the members of an unordered list are sorted."""
    return json.dumps(item, sort_keys=True)


def text_of(annotation: Any) -> str:
    """Return an annotation as a person would write it."""
    return annotation.__qualname__ if isinstance(annotation, type) else str(annotation)


def bad_annotation(subject: str, error: Exception) -> BadDefinition:
    """Return the error for an annotation whose values cannot be made JSON."""
    reason = str(error).splitlines()[0].split(". Set `arbitrary")[0].rstrip(".")
    return BadDefinition(
        what=f"{subject} cannot be stored as JSON: {reason}",
        hint=(
            "Use JSON natives, a dataclass, a pydantic model, a TypedDict, a NamedTuple or an "
            "Enum, and define or import the classes it names before this one."
        ),
    )
