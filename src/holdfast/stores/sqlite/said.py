"""Log lines and heartbeats as statements."""

from __future__ import annotations

from sqlite3 import Connection

from holdfast.model.annotations import Annotations, LogFilter, LogLine, Progress
from holdfast.model.writes import Annotate, Outcome
from holdfast.stores.sqlite.statements import queries

SQL = queries()


def annotate(connection: Connection, write: Annotate, now: int) -> Outcome:
    """Keep what a run's holder says, if it holds the run."""
    ns, run = write.ns, write.run
    if not connection.execute(SQL.is_held, (ns, run, write.owner, write.epoch)).fetchone()[0]:
        return Outcome(False)
    add(connection, ns, run, write.annotations)
    if write.moves_on:
        connection.execute(SQL.clear_strikes, (ns, run))
    return Outcome(True)


def add(connection: Connection, ns: str, run: str, said: Annotations) -> None:
    """Keep lines and heartbeats; forget the heartbeats that are over."""
    connection.executemany(SQL.add_line, [(ns, run, *line) for line in said.lines])
    connection.executemany(SQL.put_progress, [(ns, run, *beat) for beat in said.progress])
    connection.executemany(SQL.delete_progress_of, [(ns, run, key) for key in said.forgets])


def progress(connection: Connection, ns: str, run: str) -> tuple[Progress, ...]:
    """Return the last heartbeats of a run's open steps."""
    return tuple(map(Progress._make, connection.execute(SQL.progress, (ns, run))))


def lines(connection: Connection, wanted: LogFilter) -> list[LogLine]:
    """Return lines of a run's log, oldest first."""
    return list(map(LogLine._make, connection.execute(SQL.lines, wanted._asdict())))
