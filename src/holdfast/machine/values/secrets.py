"""Secrets do not cross the line: neither as objects, nor as the texts they hold."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.errors import BadDefinition, SecretSerialisationError
from holdfast.machine.values.walk import is_kind, join, parts
from holdfast.model.redacting import holds_secret, redact
from holdfast.model.secrets import Secret

DEEPEST = 64


def refusal_of_secret(value: Any, where: str, root: str) -> SecretSerialisationError | None:
    """Return why a value that could not be encoded is refused, if that is for a `Secret` in it."""
    steps = _find(value, _is_secret)
    if steps is None:
        return None
    return SecretSerialisationError(where=where, path=join(root, steps) or "arguments")


def is_leaking(payload: bytes) -> bool:
    """Tell whether the bytes hold the text of a secret that is known here.

    Never in a body: whether a text is known to be secret differs from one replay to the next.
    """
    # Imported late: a machine is made of values.
    from holdfast.machine.machine import current

    return current() is None and holds_secret(payload)


def leak(value: Any, where: str, root: str) -> SecretSerialisationError:
    """Return the refusal of a value that holds the text of a secret, with the path to it."""
    steps = _find(value, _tells_secret)
    path = join(root, redact(steps or "")) or "arguments"
    return SecretSerialisationError(where=where, path=path, what="the text of a secret")


def refuse_secret_type(schema: Any) -> None:
    """Refuse an annotation that asks for a `Secret` to be stored. Raises `BadDefinition`."""
    if is_kind(schema, list, tuple):
        for item in schema:
            refuse_secret_type(item)
    elif is_kind(schema, dict):
        if schema.get("type") == "is-instance" and schema.get("cls") is Secret:
            raise BadDefinition(
                what="hf.Secret cannot be stored, so it is no type of a parameter or result",
                hint=SecretSerialisationError.hint.removeprefix("Leave it out. "),
            )
        for part in schema.values():
            refuse_secret_type(part)


def _is_secret(part: object) -> bool:
    return isinstance(part, Secret)


def _tells_secret(part: object) -> bool:
    return isinstance(part, str) and redact(part) != part


def _find(value: Any, fits: Callable[[object], bool], levels: int = DEEPEST) -> str | None:
    """Return the steps that lead to the first part that fits, or None."""
    if fits(value):
        return ""
    if levels == 0:
        return None
    for step, part in parts(value):
        if (rest := _find(part, fits, levels - 1)) is not None:
            return step + rest
    return None
