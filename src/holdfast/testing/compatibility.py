"""Would the open runs of a store go on with the code there is now?

Each is replayed from its history on the present definitions, without an effect and without a write.
One history is in memory at a time; runs that break in the same way are one group.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from holdfast.app import App
from holdfast.errors import UNREADABLE, HistoryTooLong, HoldfastError, ReplayMismatch, Undecodable
from holdfast.fronts.function.workflow import Workflow
from holdfast.machine import Machine
from holdfast.model.events import CLASS_OF, FED, Event
from holdfast.model.failures import in_a_line
from holdfast.model.run import SINCE_START, Loaded, Run
from holdfast.model.status import OPEN
from holdfast.model.writes import Filter, Page
from holdfast.ports.inspection import Readable
from holdfast.testing.advising import advice, named
from holdfast.testing.replaying import feed, machine_of, whereabouts

PAGE = 200
NUMBERS = re.compile(r"\bEvent \d+|#\d+|\[\d+\]")
"""What tells the rounds of a loop apart."""
SHOWN = 5
"""How many runs of a group are named."""

Outcome = Literal["compatible", "breaks", "fails", "unregistered", "version missing"]


class Break(NamedTuple):
    """Where and why a run would not go on, and what to write.

    `word` is how a blocked run would be told: mismatch, guard, deadlock, undecodable, version; or
    "failed" if the body would end with an error at once.
    """

    word: str
    code: str
    seq: int
    recorded: str
    asked: str
    source: str
    message: str
    write: tuple[str, ...]

    @property
    def kind(self) -> tuple[str, ...]:
        """What is the same in runs that break in the same way, in whichever round of a loop."""
        told = (self.word, self.recorded or self.message, self.asked, self.source)
        return tuple(NUMBERS.sub("", part) for part in told)


class Verdict(NamedTuple):
    """What the present code would do with one run."""

    run: Run
    outcome: Outcome
    leads_to: str = ""
    found: Break | None = None
    reshaped: tuple[str, ...] = ()
    """Steps whose parameters have changed: their recorded arguments could not be compared."""

    @property
    def is_good(self) -> bool:
        """Tell whether the run would go on."""
        return self.outcome in ("compatible", "unregistered")


@dataclass
class Group:
    """Runs of one definition that break in the same way, or that nobody would run."""

    workflow: str
    version: str
    outcome: Outcome
    found: Break | None
    count: int = 0
    runs: list[str] = field(default_factory=list[str])
    """The first few of them."""
    blocked: int = 0
    """How many of them are blocked already."""
    first: int = 0
    last: int = 0
    """The smallest and the largest seq of the event at which they break."""

    def add(self, run: Run, seq: int) -> None:
        """Count one run."""
        self.first, self.last = min(self.first or seq, seq), max(self.last, seq)
        self.count += 1
        self.blocked += run.status == "blocked"
        if len(self.runs) < SHOWN:
            self.runs.append(run.id)


@dataclass
class Compatibility:
    """The outcome of all runs that were looked at."""

    total: int = 0
    compatible: dict[str, int] = field(default_factory=dict[str, int])
    """By workflow, how many runs go on."""
    freed: list[str] = field(default_factory=list[str])
    """Blocked runs that would go on now: the first few, and how many in `freed_count`."""
    freed_count: int = 0
    ending: dict[str, int] = field(default_factory=dict[str, int])
    """By workflow, how many of the compatible runs would be at their end at once."""
    reshaped: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By workflow, steps whose parameters have changed."""
    groups: dict[Any, Group] = field(default_factory=dict[Any, Group])
    is_cut: bool = False
    """Whether there were more runs than were to be looked at."""

    @property
    def broken(self) -> list[Group]:
        """The groups that would not go on, the largest first."""
        found = [group for group in self.groups.values() if group.outcome != "unregistered"]
        return sorted(found, key=lambda group: -group.count)

    @property
    def unregistered(self) -> list[Group]:
        """Runs of workflows that the app does not have."""
        return [group for group in self.groups.values() if group.outcome == "unregistered"]

    def add(self, verdict: Verdict) -> None:
        """Count one run."""
        self.total += 1
        if verdict.outcome == "compatible":
            self._add_good(verdict)
            return
        run, found = verdict.run, verdict.found
        version = "" if verdict.outcome == "unregistered" else run.version
        key = (run.workflow, version, verdict.outcome, found and found.kind)
        group = self.groups.setdefault(key, Group(run.workflow, version, verdict.outcome, found))
        group.add(run, found.seq if found is not None else 0)

    def _add_good(self, verdict: Verdict) -> None:
        name, run = verdict.run.workflow, verdict.run
        self.compatible[name] = self.compatible.get(name, 0) + 1
        if run.status == "blocked" and not run.reason.startswith(HistoryTooLong.blocked_as):
            self.freed_count += 1
            self.freed = [*self.freed, run.id][:SHOWN]
        if not verdict.leads_to.startswith("waits"):
            self.ending[name] = self.ending.get(name, 0) + 1
        if verdict.reshaped:
            self.reshaped.setdefault(name, set()).update(verdict.reshaped)


async def compare(
    app: App,
    store: Readable,
    *,
    workflows: tuple[str, ...] = (),
    limit: int | None = None,
    tell: Callable[[int], None] = lambda _: None,
) -> Compatibility:
    """Replay the open runs of the app's namespace, newest first, and say what would become of them.

    `workflows` names the only ones to look at; `tell` hears how many were.
    """
    found = Compatibility()
    async for run in _open_runs(app.namespace, store, workflows):
        if limit is not None and found.total >= limit:
            found.is_cut = True
            break
        verdict = await _judged(app, store, run)
        if verdict is not None:
            found.add(verdict)
            tell(found.total)
    return found


async def _open_runs(ns: str, store: Readable, workflows: tuple[str, ...]) -> AsyncIterator[Run]:
    statuses = tuple(sorted(OPEN))
    for workflow in workflows or ("",):
        page = Page(PAGE)
        while True:
            runs = await store.find(Filter(ns, statuses=statuses, workflow=workflow), page)
            for run in runs:
                yield run
            if len(runs) < PAGE:
                break
            page = Page(PAGE, runs[-1].created_at, runs[-1].id)


async def _judged(app: App, store: Readable, run: Run) -> Verdict | None:
    """Return the verdict on a run, or None if it has ended meanwhile."""
    workflow = app.versions.of_run(run.workflow, run.version)
    if workflow is None:
        is_known = run.workflow in app.workflows
        return Verdict(run, "version missing" if is_known else "unregistered")
    try:
        loaded = await store.load(run.ns, run.id, SINCE_START)
    except UNREADABLE as error:
        return Verdict(run, "breaks", found=_broken(error, None, ()))
    if loaded is None or loaded.run.status not in OPEN:
        return None
    return judge(app, workflow, loaded)


def judge(app: App, workflow: Workflow[..., Any], loaded: Loaded) -> Verdict:
    """Replay one run on a definition, and say what would become of it."""
    run, events = loaded.run, loaded.events
    try:
        machine = machine_of(workflow, run)
    except HoldfastError as error:  # a definition whose annotations cannot be used
        return Verdict(run, "breaks", found=_broken(error, None, events))
    try:
        feed(machine, run, events)
        if machine.ended is not None and machine.ended.status == "failed":
            return Verdict(run, "fails", found=_failing(machine, events))
        reshaped = tuple(sorted(_reshaped(app, events)))
        return Verdict(run, "compatible", str(whereabouts(machine)), reshaped=reshaped)
    except HoldfastError as error:
        return Verdict(run, "breaks", found=_broken(error, machine, events))
    finally:
        machine.close()


def _broken(error: HoldfastError, machine: Machine | None, events: tuple[Event, ...]) -> Break:
    mismatch = error if isinstance(error, ReplayMismatch) else None
    fed = [event.seq for event in events if event.kind in FED]
    last = max((seq for seq in fed if machine is not None and seq <= machine.seq), default=0)
    seq = error.seq if isinstance(error, ReplayMismatch | Undecodable) else last
    return Break(
        word=getattr(error, "blocked_as", "definition"),
        code=error.code,
        seq=seq,
        recorded=mismatch.recorded if mismatch is not None else "",
        asked=mismatch.asked if mismatch is not None else "",
        source=getattr(error, "source", ""),
        message=str(error.args[0]),
        write=advice(error, machine, events) if machine is not None else (error.hint,),
    )


def _failing(machine: Machine, events: tuple[Event, ...]) -> Break:
    """The body raises where the run waits: it would not be blocked, but fail for good."""
    failure = machine.ended.failure if machine.ended is not None else None
    told = in_a_line(failure.type, failure.message) if failure is not None else "an error"
    return Break(
        word="failed",
        code="",
        seq=events[-1].seq if events else 0,
        recorded="",
        asked="",
        source="",
        message=f"The body would end the run as failed, with {told}.",
        write=("Mend the error in the body before you deploy: a failed run is closed.",),
    )


def _reshaped(app: App, events: tuple[Event, ...]) -> Iterator[str]:
    """Yield steps that were recorded with other parameters than they have now."""
    for event in events:
        if CLASS_OF[event.kind] != "answer" or event.digest is None or len(event.digest) < 16:
            continue
        step = app.steps.get(named(event.key))
        if step is not None and step.signature.schema != event.digest[8:]:
            yield step.name
