"""Taking without a look at the queue: what dead workers left, and what a hint named.

The runs of workers that are gone go to who reaps them: they were under way before anything that
waits. What the claimer may not have, and what stands in a managed queue, goes back to where
everybody looks.
"""

from __future__ import annotations

from collections.abc import Sequence
from sqlite3 import Connection

from holdfast.model.limits import queue_of
from holdfast.model.run import SUSPECT, Run
from holdfast.model.writes import Claim, Reap
from holdfast.stores.sqlite.statements import queries
from holdfast.stores.sqlite.writes import Taken, apply, hold

SQL = queries()


def take_over(
    connection: Connection, claim: Claim, now: int
) -> tuple[Taken, tuple[tuple[str, int], ...]]:
    """Reap as the claim says, and take what it asks for of what was freed."""
    left: list[Run] = []
    reaped: list[tuple[str, int]] = []
    for reap in claim.reaps:
        held = _held_by(connection, reap)
        if freed := apply(connection, reap, now).total:
            left += held
            reaped.append((reap.worker, freed))
    chosen = _choose(connection, claim, left)
    if not chosen:
        return Taken(), tuple(reaped)
    return Taken(hold(connection, claim, chosen, now)), tuple(reaped)


def take_named(connection: Connection, claim: Claim, now: int) -> Taken:
    """Take of the runs that a hint named what could be claimed without it, by their keys."""
    found = (
        connection.execute(SQL.named_run, {"ns": claim.ns, "run": run, "now": now}).fetchone()
        for run in dict.fromkeys(claim.hints)
    )
    wanted = [run for row in found if row and _is_wanted(run := Run._make(row), claim)]
    chosen = wanted[: claim.limit]
    return Taken(hold(connection, claim, chosen, now)) if chosen else Taken()


def _held_by(connection: Connection, reap: Reap) -> list[Run]:
    """Return the runs of a worker, as they will be when it is reaped."""
    rows = connection.execute(SQL.runs_of_worker, (reap.worker,)).fetchall()
    return [run._replace(strikes=run.strikes + 1) for run in map(Run._make, rows)]


def _choose(connection: Connection, claim: Claim, left: Sequence[Run]) -> list[Run]:
    """Return those that the claim asks for; of those that crashed a worker twice, only a few."""
    wanted = [run for run in left if _is_wanted(run, claim)]
    if wanted:
        rows = connection.execute(SQL.queues_of_namespace, {"ns": claim.ns})
        managed = {queue_of(row).name for row in rows}
        wanted = [run for run in wanted if run.queue not in managed]
    sound = [run for run in wanted if run.strikes < SUSPECT]
    suspects = [run for run in wanted if SUSPECT <= run.strikes < claim.strikes]
    return [*sound, *suspects[: claim.suspects]][: claim.limit]


def _is_wanted(run: Run, claim: Claim) -> bool:
    if run.ns != claim.ns or not (claim.queues is None or run.queue in claim.queues):
        return False
    return run.workflow in claim.workflows or f"{run.workflow}/{run.version}" in claim.workflows
