"""A run as a file: everything of it, in a format with a number, to be read elsewhere.

Bytes are written as text if they are some, so that a person can read them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

from holdfast.errors import InvalidExport, InvalidName, InvalidValue
from holdfast.model import sizes
from holdfast.model.events import Event
from holdfast.model.labels import LARGEST, NO_LABELS, Labels, checked_labels
from holdfast.model.limits import Ticket, placed
from holdfast.model.queues import checked_priority, checked_queue
from holdfast.model.run import Message, Run
from holdfast.model.status import CLOSED

FORMAT = 1


class Export(NamedTuple):
    """Everything of one run: superseded events and read messages too."""

    run: Run
    events: tuple[Event, ...]
    inbox: tuple[Message, ...]
    labels: Labels = NO_LABELS
    queue_key: str = ""
    """Whose turn it takes on its queue."""

    @property
    def living(self) -> tuple[Event, ...]:
        """The events that count."""
        return tuple(event for event in self.events if event.superseded_by is None)

    @property
    def ticket(self) -> Ticket | None:
        """The place at its queue that keeps the key; it joins the line when it is due."""
        run = self.run
        if not self.queue_key:
            return None
        return Ticket(
            run.ns, run.id, run.queue, self.queue_key, run.priority, run.created_at,
            state="done" if run.status in CLOSED else "new",
        )  # fmt: skip


def document_of(export: Export) -> dict[str, Any]:
    """Return the run as JSON objects."""
    return {
        "holdfast": "run",
        "format": FORMAT,
        "run": _written(export.run),
        "events": [_written(event) for event in export.events],
        "inbox": [_written(message) for message in export.inbox],
        "tags": list(export.labels.tags),
        "attributes": dict(export.labels.attributes),
        "queue_key": export.queue_key,
    }


def export_of(document: object) -> Export:
    """Return the run that a document holds, its types checked. Raises `InvalidExport`."""
    fields = _object("the file", document)
    if fields.get("holdfast") != "run":
        raise InvalidExport(where="the file", problem='it does not say "holdfast": "run"')
    if fields.get("format") != FORMAT:
        raise InvalidExport(
            where="format", problem=f"{fields.get('format')!r}; this release reads {FORMAT}"
        )
    labels = checked_labels(fields.get("tags", ()), fields.get("attributes", {}))
    run = _placed(_read(Run, "run", fields.get("run")))
    return Export(
        run,
        _rows(Event, "events", fields.get("events")),
        _rows(Message, "inbox", fields.get("inbox")),
        labels,
        _key(run, fields.get("queue_key", "")),
    )


def _placed(run: Run) -> Run:
    """Return the run if a worker could take it from where it is put."""
    try:
        checked_queue(run.queue)
        checked_priority(run.priority, "run")
    except (InvalidName, InvalidValue) as error:
        raise InvalidExport(where="run", problem=str(error).rstrip(".")) from None
    return run


def _key(run: Run, key: object) -> str:
    """Return the key if the run's queue can have keys."""
    if not isinstance(key, str):
        raise InvalidExport(where="queue_key", problem="it is no text")
    try:
        placed(run.queue, key or None, None, "run")
    except (InvalidName, InvalidValue) as error:
        raise InvalidExport(where="queue_key", problem=str(error).rstrip(".")) from None
    return key


def _written(row: Any) -> dict[str, Any]:
    values: dict[str, Any] = row._asdict()
    return {name: _plain(value) for name, value in values.items()}


def _plain(value: Any) -> Any:
    if not isinstance(value, bytes):
        return value
    try:
        return {"text": value.decode("utf-8")}
    except UnicodeDecodeError:
        return {"hex": value.hex()}


def _rows(kind: Callable[..., Any], where: str, rows: object) -> tuple[Any, ...]:
    if not isinstance(rows, list):
        raise InvalidExport(where=where, problem="it is no list")
    listed = cast("Sequence[object]", rows)
    return tuple(_read(kind, f"{where}[{n}]", row) for n, row in enumerate(listed))


def _read(kind: Callable[..., Any], where: str, row: object) -> Any:
    # Imported late: only an import pays for it.
    from pydantic import ValidationError

    values = {name: _unwritten(value) for name, value in _object(where, row).items()}
    for name, value in values.items():
        if isinstance(value, int) and abs(value) > LARGEST:
            raise InvalidExport(where=f"{where}.{name}", problem="it has more than 64 bits")
    try:
        return _adapter(kind).validate_python(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join([where, *map(str, first["loc"])])
        raise InvalidExport(where=place, problem=first["msg"]) from None


def _adapter(kind: Any) -> Any:
    from pydantic import TypeAdapter

    return TypeAdapter(kind, config={"strict": True})


def _unwritten(value: Any) -> Any:
    """Return the bytes that were written as an object; leave what is none to the type check."""
    match value:
        case {"text": str(text)}:
            if len(text) > sizes.INLINE:
                sizes.note_large()
            return text.encode("utf-8", "surrogatepass")
        case {"hex": str(digits)}:
            try:
                return bytes.fromhex(digits)
            except ValueError:
                return value  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


def _object(where: str, value: object) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise InvalidExport(where=where, problem="it is no JSON object")
    return cast("Mapping[str, Any]", value)
