"""A value that is written down nowhere: not in the store, not in logs, not in messages."""

from __future__ import annotations

import hmac
from typing import Any, NoReturn, Self

from holdfast.errors import InvalidValue, SecretSerialisationError
from holdfast.model.checks import checked_id
from holdfast.model.redacting import MASK, know

SHOWN = f"Secret({MASK})"


class Secret:
    """Holds a text that nobody sees by accident; `reveal()` returns it.

    It has no JSON form, cannot be pickled, and shows as `Secret(***)`. What it holds is masked in
    logs and in errors of this process, if it has at least six characters.
    """

    __slots__ = ("__value",)

    def __init__(self, value: str) -> None:
        given: Any = value
        if not isinstance(given, str):
            raise InvalidValue(
                where="hf.Secret", path="value", problem=f"{type(given).__name__} is no text",
                hint="Give a str; of bytes, give their base64.",
            )  # fmt: skip
        self.__value = value
        know(value)

    def reveal(self) -> str:
        """Return the text. Use it where it is needed, and keep it in no variable for long."""
        return self.__value

    def __repr__(self) -> str:
        return SHOWN

    __str__ = __repr__

    def __format__(self, _: str) -> str:
        return SHOWN

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        mine, theirs = _bytes_of(self.__value), _bytes_of(other.__value)
        return hmac.compare_digest(mine, theirs)

    def __hash__(self) -> int:
        return hash((Secret, self.__value))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __reduce_ex__(self, _: object) -> NoReturn:
        raise SecretSerialisationError(where="pickle", path="value")

    @classmethod
    def __get_pydantic_core_schema__(cls, _source: object, _handler: object) -> Any:
        from pydantic_core import core_schema

        refuse = core_schema.plain_serializer_function_ser_schema(_refuse, when_used="json")
        return core_schema.is_instance_schema(cls, serialization=refuse)


def checked_secret_name(name: str) -> str:
    """Return the name if a secret can have it. Raises `InvalidName`."""
    return checked_id(name, field="secret name")


def _refuse(_: object) -> NoReturn:
    raise SecretSerialisationError(where="JSON", path="value")


def _bytes_of(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")
