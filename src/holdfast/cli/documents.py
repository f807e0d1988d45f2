"""The JSON that machines get: runs and events as plain objects."""

from __future__ import annotations

import json
import re
from typing import Any, cast

from holdfast.cli.terminal import STDOUT
from holdfast.cli.words import iso
from holdfast.model.annotations import Progress
from holdfast.model.events import Event
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.run import NOT_CANCELLED, Run

BEYOND_ASCII = re.compile("[\x7f-\U0010ffff]")
RUN_FIELDS = (
    "id", "namespace", "workflow", "version", "status", "reason", "generation", "events",
    "worker", "wake_at", "unread_messages", "cancel_requested", "strikes", "created_at",
    "updated_at", "closed_at", "deadline", "queue", "priority", "tags", "attributes",
)  # fmt: skip


def run_document(run: Run, labels: Labels = NO_LABELS) -> dict[str, Any]:
    """Return a run's row by the names of the API."""
    values = (
        run.id, run.ns, run.workflow, run.version, run.status, run.reason, run.generation, run.seq,
        run.owner, iso(run.due_at), run.inbox_seq - run.inbox_read, run.cancel != NOT_CANCELLED,
        run.strikes, iso(run.created_at), iso(run.updated_at), iso(run.closed_at),
        iso(run.deadline), run.queue, run.priority, list(labels.tags), dict(labels.attributes),
    )  # fmt: skip
    return dict(zip(RUN_FIELDS, values, strict=True))


def event_document(event: Event) -> dict[str, Any]:
    """Return an event; its payload is JSON already."""
    return {
        "seq": event.seq,
        "kind": event.kind,
        "key": event.key,
        "at": iso(event.at),
        "took_us": event.ran_for,
        "cached": event.is_cached,
        "generation": event.generation,
        "epoch": event.epoch,
        "superseded_by": event.superseded_by,
        "payload": value_of(event.payload),
    }


def progress_document(beat: Progress) -> dict[str, Any]:
    """Return the last heartbeat of a step."""
    return {
        "step": beat.key,
        "attempt": beat.attempt,
        "at": iso(beat.at),
        "details": value_of(beat.details),
    }


def value_of(payload: bytes | None) -> Any:
    """Return a stored value as JSON."""
    if payload is None:
        return None
    try:
        return json.loads(payload)
    except ValueError:
        return payload.decode("utf-8", "backslashreplace")


def fields_of(payload: bytes | None) -> dict[str, Any]:
    """Return a stored object, or an empty one if something else is stored."""
    value = value_of(payload)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def compact(payload: bytes | None) -> str:
    """Return a stored value on one line."""
    value = value_of(payload)
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def say_json(value: Any) -> None:
    """Print a value for machines: on one line if it is piped."""
    STDOUT.say(json_text(value, indent=2 if STDOUT.stream.isatty() else None))


def say_json_line(value: Any) -> None:
    """Print a value on one line, also at a terminal."""
    STDOUT.say(json_text(value))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """Return JSON without anything that steers a terminal or breaks a line: that is escaped."""
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    return BEYOND_ASCII.sub(lambda found: _escaped(found[0]), text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    return "\\u007f" if character == "\x7f" else json.dumps(character)[1:-1]
