"""What becomes of jobs that somebody holds, as statements."""

from __future__ import annotations

from sqlite3 import Connection
from typing import Any

from holdfast.model.jobs import JobRef
from holdfast.model.writes import Notice, Outcome, Report
from holdfast.stores.sqlite import said
from holdfast.stores.sqlite.statements import queries

SQL = queries()


def is_held(connection: Connection, ns: str, run: str, job: JobRef) -> bool:
    """Tell whether the job is there, in the hands it is said to be in."""
    return bool(connection.execute(SQL.is_job_held, _named(ns, run, job)).fetchone()[0])


def end(connection: Connection, ns: str, run: str, job: JobRef) -> tuple[Notice, ...]:
    """Take a held job off the list, and keep what was said of it last.

    Whoever waits for its slot should look.
    """
    [frees] = connection.execute(SQL.end_job, _named(ns, run, job)).fetchone()
    if job.annotations is not None:
        said.add(connection, ns, run, job.annotations)
    return (Notice(ns, "", "ready"),) if frees else ()


def report(connection: Connection, write: Report, now: int) -> Outcome:
    """Keep what a job says, or give it back, if it is held."""
    ns, run, job = write.ns, write.run, write.job
    if not is_held(connection, ns, run, job):
        return Outcome(False)
    if job.annotations is not None:
        said.add(connection, ns, run, job.annotations)
    if write.moves_on:
        connection.execute(SQL.clear_job_strikes, {"ns": ns, "run": run, "key": job.key})
    if write.back_at is not None:
        connection.execute(SQL.give_job_back, {**_named(ns, run, job), "at": write.back_at})
    return Outcome(True)


def release(connection: Connection, worker: str, now: int) -> int:
    """Take its jobs from a worker that is gone; return how many."""
    return connection.execute(SQL.release_jobs_of, {"worker": worker, "now": now}).rowcount


def _named(ns: str, run: str, job: JobRef) -> dict[str, Any]:
    return {"ns": ns, "run": run, "key": job.key, "owner": job.owner, "epoch": job.epoch}
