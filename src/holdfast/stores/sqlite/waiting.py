"""What runs wait for from outside, as statements."""

from __future__ import annotations

from sqlite3 import Connection

from holdfast.model.waits import Answer, Wait, WaitFilter, Waits, row_of, wait_of
from holdfast.stores.sqlite.statements import queries

SQL = queries()


def change(connection: Connection, ns: str, run: str, waits: Waits, at: int) -> None:
    """Open what a turn asks for, and end what it no longer asks for."""
    connection.executemany(SQL.put_wait, map(row_of, waits.opens))
    ended = [{"ns": ns, "run": run, "key": key, "why": why, "at": at} for key, why in waits.overs]
    connection.executemany(SQL.end_wait, ended)
    if waits.jobs:
        connection.executemany(SQL.put_job, waits.jobs)
    if waits.drops:
        connection.executemany(SQL.drop_job, [(ns, run, key) for key in waits.drops])


def end_all(connection: Connection, ns: str, run: str, why: str, at: int) -> None:
    """End all that a run waits for."""
    connection.execute(SQL.end_waits, {"ns": ns, "run": run, "why": why, "at": at})
    connection.execute(SQL.delete_jobs, (ns, run))


def is_open(connection: Connection, ns: str, run: str, answer: Answer) -> bool:
    """Tell whether this is what is still awaited."""
    given = {"ns": ns, "run": run, "key": answer.key, "secret": answer.secret}
    return bool(connection.execute(SQL.is_wait_open, given).fetchone()[0])


def settle(connection: Connection, ns: str, run: str, answer: Answer, at: int) -> None:
    """Keep the answer."""
    connection.execute(
        SQL.answer_wait,
        {"ns": ns, "run": run, "key": answer.key, "secret": answer.secret, "by": answer.by,
         "answer": answer.payload, "at": at},
    )  # fmt: skip


def read(connection: Connection, wanted: WaitFilter) -> list[Wait]:
    """Return what runs wait for, the oldest first."""
    asked = SQL.waits_of_run if wanted.run else SQL.open_waits
    return list(map(wait_of, connection.execute(asked, wanted._asdict())))
