"""Jobs of managed queues: who is next, and what keeps them (`stores/job_lines.py` says how).

As with runs: whoever takes of a managed queue locks its row first, and is alone there. Whoever
hands a job in, or calls it off, touches only its own row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from holdfast.model.jobs import Job, JobClaim
from holdfast.model.limits import queue_of
from holdfast.model.run import SUSPECT
from holdfast.stores.job_lines import UNMANAGED
from holdfast.stores.postgres.connection import Ask, Line
from holdfast.stores.postgres.limits import Lines
from holdfast.stores.postgres.statements import Statement, fragments, queries, statement
from holdfast.stores.postgres.target import Row

SQL = queries()


def _along_the_lanes(*names: str) -> Statement:
    texts = fragments()
    return statement("\n".join(texts[name] for name in ("job_lanes", *names)))


CLAIM = _along_the_lanes("claim_jobs", "jobs_seen", "claimed_jobs")
TAKE = _along_the_lanes("claim_jobs", "taken_jobs")
LOOK = _along_the_lanes("jobs_seen", "look_at_jobs")
HEADS = _along_the_lanes("job_heads")


class Looked(NamedTuple):
    """What the lines of managed queues show."""

    is_open: bool = False
    """Whether a job may begin there, as far as it can be told without keys."""
    next_at: tuple[int, ...] = ()
    """When rates let the next jobs begin."""


async def look(line: Line, claim: JobClaim, given: Mapping[str, Any], seen: Row) -> Looked:
    """Look at the lines without taking anything."""
    now = seen["now"]
    heads = await line.fetch(HEADS, **{**given, "now": now})
    lanes = [(name, priority) for priority, _, name in heads if name != UNMANAGED]
    names = sorted({name for name, _ in lanes})
    if not names:
        return Looked()
    rows = await line.fetch(SQL.queues_of_namespace, ns=claim.ns)
    lines = Lines(claim, list(map(queue_of, rows)), now)
    lines.read(await line.fetch(SQL.rooms, ns=claim.ns, queues=names, worker=claim.worker, now=now))
    times = tuple(at for name in names if (at := lines.next_at(name)) is not None)
    if any(lines.room(name) for name in names):
        return Looked(True, times)
    full = [(name, priority) for name, priority in lanes if lines.pace(name)]
    if not full:
        return Looked(False, times)
    [[rides]] = await line.fetch(
        SQL.riding_jobs, ns=claim.ns, queues=[name for name, _ in full], steps=given["steps"],
        priorities=[priority for _, priority in full], suspects=claim.suspects, now=now,
    )  # fmt: skip
    return Looked(rides, times)


async def take(
    ask: Ask, claim: JobClaim, given: Mapping[str, Any]
) -> tuple[tuple[Job, ...], tuple[int, ...]]:
    """Take jobs lane by lane, inside the open transaction. The clock is read under the locks.

    Return them, and when rates let the next ones begin.
    """
    rows = await ask(SQL.locked_queues, ns=claim.ns, queues=given["queues"])
    [[now]] = await ask(SQL.clock) if given["now"] is None else [[given["now"]]]
    lines = Lines(claim, list(map(queue_of, rows)), now)
    here = {"ns": claim.ns, "queues": list(lines.queues), "worker": claim.worker, "now": now}
    lines.read(await ask(SQL.rooms, **here))
    found, suspects = list[Job](), claim.suspects
    given = {**given, "now": now}
    for priority, _, queue in await ask(HEADS, **given):
        left = {**given, "limit": claim.limit - len(found), "suspects": suspects}
        if left["limit"] <= 0:
            break
        if queue == UNMANAGED:
            jobs = list(map(Job._make, await ask(TAKE, **{**left, "priorities": [priority]})))
        elif queue in lines.queues:
            jobs = await _admit(ask, lines, {**left, "priority": priority, "queue": queue})
        else:
            continue  # managed only since the locks were taken
        suspects -= sum(job.strikes >= SUSPECT for job in jobs)
        found += jobs
    return tuple(found), await _next_at(ask, lines, given)


async def _next_at(ask: Ask, lines: Lines, given: Mapping[str, Any]) -> tuple[int, ...]:
    """Return when rates let jobs begin that are left in line."""
    times = {name: lines.next_at(name) for name in lines.queues}
    if not any(times.values()):
        return ()
    found = {times.get(name) for _, _, name in await ask(HEADS, **given)}
    return tuple(at for at in found if at is not None)


async def _admit(ask: Ask, lines: Lines, given: Mapping[str, Any]) -> list[Job]:
    """Admit jobs of a line, as many as may begin."""
    name = given["queue"]
    most, row = min(given["limit"], lines.pace(name)), lines.queues[name]
    if most <= 0:
        return []
    picked = await ask(
        SQL.admit_jobs,
        **{
            **given, "limit": most, "slots": lines.room(name), "key_most": row.key_concurrency,
            "after_key": row.last_job_key,
        },
    )  # fmt: skip
    if not picked:
        return []
    seated = [key for _, _, key, rides in picked if not rides]
    if seated:
        row = row._replace(last_job_key=seated[-1])
    counted = lines.admits(row, len(picked), slots=len(seated))
    await ask(SQL.count_admissions, **counted)
    runs, keys = [run for run, *_ in picked], [key for _, key, *_ in picked]
    return list(map(Job._make, await ask(SQL.admitted_jobs, ns=row.ns, runs=runs, keys=keys)))
