"""A value that is written down nowhere: not in the store, not in logs, not in messages."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn, Self

from holdfast.errors import InvalidValue, SecretSerialisationError
from holdfast.model.checks import checked_id
from holdfast.model.redacting import MASK, know

SHOWN = f"Secret({MASK})"
MOST_SECRETS = 32
LONGEST_SECRET = 65_536


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


class Sealed(NamedTuple):
    """A secret of a run as a store keeps it: encrypted, with the id of the key."""

    name: str
    key: str
    sealed: bytes


def place_of(ns: str, run: str, name: str) -> bytes:
    """Return what a sealed secret is bound to; none of the three holds a line break."""
    return f"secret\n{ns}\n{run}\n{name}".encode()


def checked_secrets(given: Mapping[str, Secret], *, where: str) -> dict[str, Secret]:
    """Return the secrets that somebody gives to a run. Raises `InvalidName` or `InvalidValue`."""
    told: Any = given
    if not isinstance(told, Mapping):
        problem = f"{type(told).__name__} is no mapping of names to secrets"
        hint = 'Write secrets={"token": hf.Secret(...)}.'
    elif len(given) > MOST_SECRETS:
        problem = f"{len(given)} secrets, and the limit is {MOST_SECRETS}"
        hint = "Give the run one that opens the others."
    else:
        return {name: _checked(name, secret, where) for name, secret in given.items()}
    raise InvalidValue(where=where, path="secrets", problem=problem, hint=hint)


def _checked(name: str, secret: Any, where: str) -> Secret:
    checked_secret_name(name)
    if not isinstance(secret, Secret):  # not shown: it is meant to be one
        problem, hint = f"{type(secret).__name__} is no Secret", "Write hf.Secret(...)."
    elif len(secret.reveal()) > LONGEST_SECRET:
        problem = f"more than {LONGEST_SECRET:,} characters"
        hint = "Keep what is large elsewhere, and give the run a key to it."
    else:
        return secret
    raise InvalidValue(where=where, path=f"secrets[{name!r}]", problem=problem, hint=hint)


def checked_secret_name(name: str) -> str:
    """Return the name if a secret can have it. Raises `InvalidName`."""
    return checked_id(name, field="secret name")


def _refuse(_: object) -> NoReturn:
    raise SecretSerialisationError(where="JSON", path="value")


def _bytes_of(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")
