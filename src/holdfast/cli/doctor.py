"""`holdfast doctor`: is the store sound, who works on it, where are its runs."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door, opened, store_in
from holdfast.cli.proposing import typed_worker
from holdfast.cli.statuses import CYAN, DIM, GREEN, RED, STATUSES, YELLOW
from holdfast.cli.terminal import STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import count, iso
from holdfast.cli.workers import lease_of
from holdfast.model.queues import NEGLECTED

if TYPE_CHECKING:
    from holdfast.model.dump import Dump
    from holdfast.model.schedules import Scheduled
    from holdfast.model.workers import WorkerRow
    from holdfast.ports.store import Store
    from holdfast.testing.invariants import Violation

WORKER_COLUMNS = (Column("worker"), Column("process"), Column("lease"), Column("runs", right=True))
INVARIANTS = {
    "I1": "events are numbered without a gap",
    "I2": "epochs and generations never go down",
    "I3": "at most one living close, and it is last",
    "I4": "each step is answered at most once",
    "I5": "what callers were told is stored",
    "I6": "messages are read once, in order",
    "I7": "no timer fired early; time never goes back",
    "I8": "each run is in exactly one bucket",
    "I9": "parents and children agree; each end is told",
    "I14": "each encrypted payload and each blob can be read",
    "I15": "no queue admits more runs than it allows; slots come back",
    "I11": "each slot of a schedule started one run; none is lost",
    "I16": "nothing is undone before it has ended",
    "I20": "only open runs wait for answers; each answer was given, once",
    "I22": "heartbeats are of open steps, log lines of runs that are there",
    "I23": "jobs are those that runs wait for",
}
SHOWN = 20
LONG = 60
"""Seconds for which a transaction may be open before it is mentioned."""


class Finding(NamedTuple):
    """Everything the doctor looked at."""

    settings: dict[str, Any]
    workers: list[WorkerRow]
    dump: Dump
    violations: list[Violation]
    degraded: str
    """Why the store takes no writes, or empty."""
    moved_to: str = ""
    """Where its runs went, if it was moved."""

    @property
    def statuses(self) -> Counter[str]:
        """How many runs have each status."""
        return Counter(run.status for run in self.dump.runs)

    @property
    def overdue(self) -> list[Scheduled]:
        """The schedules that nobody looks at though they are due."""
        due = [row for row in self.dump.schedules if row.next_at is not None]
        return [row for row in due if (row.next_at or 0) < self.dump.now - NEGLECTED]

    @property
    def buckets(self) -> Counter[str]:
        """How many runs are in each bucket."""
        from holdfast.model.buckets import bucket_of

        dump = self.dump
        return Counter(bucket_of(run, dump.workers, dump.now) for run in dump.runs)


@click.command("doctor")
@options.with_url
@options.as_json
@click.pass_context
def command(ctx: click.Context, url: str, as_json: bool) -> None:
    """Check the store and everything in it. Exit 1 if it is degraded or an invariant is broken."""
    import asyncio

    finding = asyncio.run(_examine(url))
    if as_json:
        say_json(_document(finding))
    elif STDOUT.is_person:
        _say(finding, url)
    else:
        _say_lines(finding)
    ctx.exit(1 if finding.violations or finding.degraded else 0)


async def _examine(url: str) -> Finding:
    from holdfast.testing.invariants import check

    async with opened(Door(url)) as engine:
        store = store_in(engine)
        dump = await store.dump()
        degraded = await _trouble(store)
        return Finding(
            await store.facts(), await store.workers(), dump, check(dump), degraded, store.moved_to
        )


async def _trouble(store: Store) -> str:
    """Try a write that leaves nothing behind; return why it was refused."""
    from holdfast.errors import StoreError, StoreMoved
    from holdfast.model.writes import Renew, Retire

    try:
        await store.write([Renew("doctor", 0), Retire("doctor")])
    except StoreMoved:
        return ""  # as it should be
    except StoreError as error:
        return str(error)
    return ""


def _document(finding: Finding) -> dict[str, Any]:
    return {
        "store": finding.settings,
        "workers": [
            {**worker._asdict(), "lease_until": iso(worker.lease_until),
             "started_at": iso(worker.started_at)}
            for worker in finding.workers
        ],
        "statuses": dict(finding.statuses),
        "buckets": dict(finding.buckets),
        "overdue_schedules": [row.id for row in finding.overdue],
        "degraded": finding.degraded,
        "moved_to": finding.moved_to or None,
        "violations": [violation._asdict() for violation in finding.violations],
    }  # fmt: skip


def _say_lines(finding: Finding) -> None:
    for name, value in finding.settings.items():
        STDOUT.say(fields("store", name, value))
    for worker in finding.workers:
        state = "listening" if worker.is_listening else "gone"
        until = iso(worker.lease_until)
        STDOUT.say(fields("worker", worker.id, state, until, worker.runs))
    for kind, counts in (("status", finding.statuses), ("bucket", finding.buckets)):
        for name, number in sorted(counts.items()):
            STDOUT.say(fields(kind, name, number))
    told = [("overdue", row.id, row.workflow, iso(row.next_at)) for row in finding.overdue]
    told += [("violation", *violation) for violation in finding.violations]
    for each in told:
        STDOUT.say(fields(*each))
    if finding.degraded:
        STDOUT.say(fields("degraded", finding.degraded))
    if finding.moved_to:
        STDOUT.say(fields("moved", finding.moved_to))


def _say(finding: Finding, url: str) -> None:
    STDOUT.say(f"{STDOUT.style('✓', **GREEN)} {_headline(finding.settings)}")
    if finding.degraded:
        STDOUT.say(STDOUT.style(f"✗ degraded: {clean(finding.degraded)}", **RED))
    if finding.moved_to:
        STDOUT.say(f"  moved to {finding.moved_to}: read only")
    if (seconds := finding.settings.get("oldest_transaction_seconds", 0)) > LONG:
        told = f"! a transaction has been open for {seconds:,} s: dead rows cannot be cleared away"
        STDOUT.say(STDOUT.style(f"{told}. Look for it in pg_stat_activity.", **YELLOW))
    _say_workers(finding, url)
    _say_counts(finding)
    _say_overdue(finding)
    _say_invariants(finding)


SETTINGS = {
    "sqlite": ("SQLite", "journal_mode", "synchronous"),
    "postgresql": ("PostgreSQL", "fsync", "synchronous_commit"),
}


def _headline(settings: dict[str, Any]) -> str:
    kind = "sqlite" if "sqlite" in settings else "postgresql"
    name, *promises = SETTINGS[kind]
    told = [f"schema {settings['schema']}", f"{name} {settings[kind]}"]
    told += [f"{promise}={settings[promise]}" for promise in promises]
    told.append(f"{settings['bytes'] + settings.get('wal_bytes', 0):,} bytes")
    return f"{settings.get('file') or settings['database']}  {STDOUT.dim(' · '.join(told))}"


def _say_workers(finding: Finding, url: str) -> None:
    STDOUT.say()
    if not finding.workers:
        start = typed_worker(url)
        STDOUT.say(STDOUT.dim(f"No worker is listening. Start one: {start}"))
        return
    now = finding.dump.now
    rows = [
        [
            Cell(worker.id, CYAN),
            Cell("✓ alive", GREEN) if worker.is_listening else Cell("✗ gone", RED),
            Cell(lease_of(worker, now)),
            Cell(str(worker.runs)),
        ]
        for worker in finding.workers
    ]
    for line in table(WORKER_COLUMNS, rows):
        STDOUT.say(line)


def _say_counts(finding: Finding) -> None:
    STDOUT.say()
    statuses, buckets = finding.statuses, finding.buckets
    if not statuses:
        STDOUT.say(STDOUT.dim("No runs yet."))
        return
    drawn = [
        STDOUT.style(f"{look.icon} {statuses[name]:,} {name}", **look.style)
        for name, look in STATUSES.items()
        if statuses[name]
    ]
    STDOUT.say(f"{STDOUT.dim('RUNS   ')}  {'   '.join(drawn)}")
    told = "   ".join(f"{number:,} {name}" for name, number in sorted(buckets.items()))
    STDOUT.say(f"{STDOUT.dim('BUCKETS')}  {told}")


def _say_overdue(finding: Finding) -> None:
    for row in finding.overdue[:SHOWN]:
        told = f"schedule {clean(row.id)} is due, and no worker that knows {clean(row.workflow)} "
        STDOUT.say(STDOUT.style(f"✗ {told}looks at it", **RED))


def _say_invariants(finding: Finding) -> None:
    STDOUT.say()
    broken = Counter(violation.invariant for violation in finding.violations)
    for name, meaning in INVARIANTS.items():
        icon = STDOUT.style("✗", **RED) if broken[name] else STDOUT.style("✓", **GREEN)
        many = STDOUT.style(f"  {count(broken[name], 'violation')}", **RED) if broken[name] else ""
        STDOUT.say(f"{icon} {name}  {STDOUT.style(meaning, **DIM)}{many}")
    for violation in finding.violations[:SHOWN]:
        STDOUT.say(f"    {STDOUT.style(clean(str(violation)), **RED)}")
    if len(finding.violations) > SHOWN:
        STDOUT.say(STDOUT.dim(f"    … and {len(finding.violations) - SHOWN:,} more (--json)"))
