"""Reads: rows of the database as the model's values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from functools import partial
from json import loads
from typing import Any

from holdfast.model.annotations import LogFilter, LogLine, Progress
from holdfast.model.events import Event, since_start
from holdfast.model.exports import Export
from holdfast.model.labels import NO_LABELS, Labels, labels_of
from holdfast.model.limits import Ticket
from holdfast.model.run import END_ONLY, SINCE_START, Loaded, Message, Posted, Run
from holdfast.model.secrets import Sealed
from holdfast.model.travel import is_partial
from holdfast.model.waits import Wait, WaitFilter, wait_of
from holdfast.stores.postgres import forks
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.statements import Statement, fragments, queries, statement
from holdfast.stores.postgres.target import Row

SQL = queries()

# As `Event._make`, at a third of its price: a history has thousands of them.
_new_tuple: Any = tuple[Any, ...].__new__
_new_event: Callable[[tuple[object, ...]], Event] = partial(_new_tuple, Event)

EVENT = slice(1, 13)
AN_EVENT, A_MESSAGE, A_HEARTBEAT = 1, 2, 3
WIDTH = len(Run._fields)
PAYLOAD = 4
"""Where the row of the run has its digest."""


async def load(line: Line, ns: str, run: str, after: int) -> Loaded | None:
    """Return the run, its living events, unread messages and heartbeats, as of one moment."""
    if after == END_ONLY:
        return _end_of(await line.fetch(SQL.end, ns=ns, run=run))
    asked, binds = loading(ns, run, after)
    loaded = loaded_of(await line.fetch(asked, **binds))
    if loaded is None or not _lacks_some(loaded, after):
        return loaded
    async with line.transaction(reads=True) as ask:
        return await load_shared(ask, ns, run, after)


async def load_shared(ask: Ask, ns: str, run: str, after: int) -> Loaded | None:
    """As `load`, with what a fork shares, inside a transaction that sees one moment."""
    asked, binds = loading(ns, run, after)
    loaded = loaded_of(await ask(asked, **binds))
    if loaded is None or not _lacks_some(loaded, after):
        return loaded
    merged = await forks.merged(ask, ns, run, loaded.events, max(after, 0))
    living = [event for event in merged if event.superseded_by is None]
    return loaded._replace(events=tuple(since_start(living) if after == SINCE_START else living))


def _lacks_some(loaded: Loaded, after: int) -> bool:
    return after < loaded.run.seq and is_partial(loaded.events, after)


def loading(ns: str, run: str, after: int) -> tuple[Statement, dict[str, Any]]:
    """Return the statement of a `load`, and what is bound in it."""
    if after == SINCE_START:
        return LOAD_SINCE_START, {"ns": ns, "run": run, "is_whole": True}
    return SQL.load, {"ns": ns, "run": run, "after": after, "is_whole": not after}


def _since_start() -> Statement:
    """As `load`, from the last base on: it is looked up in the same statement."""
    text = fragments()
    return statement(text["load"].replace(":after", f"coalesce(({text['last_base']}), 1) - 1"))


LOAD_SINCE_START = _since_start()


def loaded_of(rows: Sequence[Row]) -> Loaded | None:
    """Return the run that the rows of one `load` hold."""
    if not rows:
        return None
    told, *others = rows
    found = _run(told[1], told[PAYLOAD])
    if not others:
        return Loaded(found, (), (), ())
    # They come in the order of their parts: most often all are events.
    last = others[-1][0]
    rest = [] if last == AN_EVENT else [row for row in others if row[0] != AN_EVENT]
    events = others[: len(others) - len(rest)]
    return Loaded(
        found,
        tuple([_new_event(row[EVENT]) for row in events]),
        tuple(_message(row) for row in rest if row[0] == A_MESSAGE),
        tuple(_heartbeat(row) for row in rest if row[0] == A_HEARTBEAT),
    )


def _end_of(rows: Sequence[Row]) -> Loaded | None:
    if not rows:
        return None
    row, ended = rows[0][:WIDTH], rows[0][WIDTH:]
    return Loaded(Run._make(row), () if ended[0] is None else (_new_event(ended),), ())


def _run(told: str, digest: bytes) -> Run:
    row = loads(told)
    row["input_digest"] = digest
    return Run(**row)


def _message(row: Row) -> Message:
    _, kind, at, id, payload, n, name = row[:7]
    return Message(id, kind, name.decode(), payload, at, n)


def _heartbeat(row: Row) -> Progress:
    _, _, at, key, details, attempt, _, _, _, epoch, generation = row[:11]
    return Progress(key, generation, attempt, at, details, epoch)


async def message(line: Line, ns: str, run: str, id: str) -> Posted | None:
    """Return a message and the row of its run, as of one moment."""
    rows = await line.fetch(SQL.message, ns=ns, run=run, message=id)
    if not rows:
        return None
    row, told = rows[0][:WIDTH], rows[0][WIDTH:]
    return Posted(Run._make(row), None if told[0] is None else Message._make(told))


async def labels(line: Line, ns: str, runs: Sequence[str]) -> dict[str, Labels]:
    """Return the tags and attributes of those runs that have some."""
    return labelled(await line.fetch(SQL.tags_of_runs, ns=ns, runs=list(runs)))


def labelled(rows: Iterable[Row]) -> dict[Any, Labels]:
    """Return labels by run from rows of run, name, kind, word, number."""
    found: dict[Any, list[Any]] = {}
    for run, *label in rows:
        found.setdefault(run, []).append(_label(*label))
    return {run: labels_of(kept) for run, kept in found.items()}


def _label(name: str, kind: str, word: str | None, number: Decimal | None) -> tuple[Any, ...]:
    if number is None:
        return name, kind, word
    return name, kind, int(number) if kind == "int" else float(number)


async def export(ask: Ask, ns: str, run: str) -> Export | None:
    """Return everything of a run, inside a transaction that sees one moment."""
    rows = await ask(SQL.run, ns=ns, run=run)
    if not rows:
        return None
    events = list(map(Event._make, await ask(SQL.all_events, ns=ns, run=run)))
    if events and events[0].seq > 1:
        events = await forks.merged(ask, ns, run, events, 0)
    inbox = await ask(SQL.all_messages, ns=ns, run=run)
    kept = labelled(await ask(SQL.tags_of_runs, ns=ns, runs=[run]))
    tickets = list(map(Ticket._make, await ask(SQL.ticket, ns=ns, run=run)))
    return Export(
        Run._make(rows[0]),
        tuple(events),
        tuple(map(Message._make, inbox)),
        kept.get(run, NO_LABELS),
        tickets[0].key if tickets else "",
    )


async def lines(line: Line, wanted: LogFilter) -> list[LogLine]:
    """Return lines of a run's log, oldest first."""
    return [log_line(row) for row in await line.fetch(SQL.lines, **wanted._asdict())]


def log_line(row: Sequence[Any]) -> LogLine:
    """Return a line of a log, its texts as they were said."""
    at, level, logger, message, *rest = row
    return LogLine(at, level, _text(logger), _text(message), *rest)


def _text(kept: bytes) -> str:
    return kept.decode("utf-8", "surrogatepass")


async def secrets(line: Line, ns: str, run: str) -> tuple[Sealed, ...]:
    """Return what a run was given for its steps, encrypted."""
    return tuple(map(Sealed._make, await line.fetch(SQL.secrets_of_run, ns=ns, run=run)))


async def waits(line: Line, wanted: WaitFilter) -> list[Wait]:
    """Return what runs wait for from outside, the oldest first."""
    asked = SQL.waits_of_run if wanted.run else SQL.open_waits
    return list(map(wait_of, await line.fetch(asked, **wanted._asdict())))
