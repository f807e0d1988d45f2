"""Heartbeats: a step that takes long says that it is alive, and how far it is."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from holdfast.errors import PayloadTooLarge
from holdfast.fronts.function.context import running
from holdfast.model.annotations import MAX_DETAILS

T = TypeVar("T")

WHERE = "details of hf.heartbeat"
NATIVE = (str, int, float, bool, list, dict)


def heartbeat(details: object = None) -> None:
    """Say that this step is alive. `details` say how far it is, for people and for a next attempt.

    It never waits: what was said last is written about once a second. Works in the threads of the
    step, too. Raises `Unserialisable` or `PayloadTooLarge`.
    """
    attempt = running("hf.heartbeat()")
    attempt.beat(None if details is None else _encoded(details))


@overload
def last_heartbeat() -> Any: ...
@overload
def last_heartbeat(type: type[T]) -> T | None: ...
def last_heartbeat(type: Any = Any) -> Any:
    """Return the details an earlier attempt of this step left, or None.

    They survive a crash and a retry, and are gone when the step has succeeded or failed for good.
    Give the `type` of the details to get them back as such. Raises `InvalidValue`.
    """
    from holdfast.machine.values import Schema

    found = running("hf.last_heartbeat()").earlier()
    return None if found is None else Schema.of(type).decode(found, where=WHERE)


def _encoded(details: object) -> bytes:
    # Imported late: it loads pydantic, and most apps have loaded it by the time a step runs.
    from holdfast.machine.values import Schema

    kind: Any = type(details)
    schema = Schema.of(Any if kind in NATIVE else kind)
    payload = schema.encode(details, where=WHERE)
    if len(payload) > MAX_DETAILS:
        raise PayloadTooLarge(where=WHERE, size=len(payload), limit=MAX_DETAILS)
    return payload
