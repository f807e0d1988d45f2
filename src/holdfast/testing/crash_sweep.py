"""The sweep: a scenario once without a fault, then once for each thing that can go wrong at a call.

Whatever fails, the end must be that of the undisturbed run: the same statuses and results, each
step's answer recorded once, signals read once and in order. Only how often a step's body ran may
differ. `holdfast.testing.invariants` holds at each end too.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple

from holdfast.errors import StepOutcomeUnknown
from holdfast.model.dump import Dump
from holdfast.model.events import CLASS_OF, Event
from holdfast.model.failures import decode_failure
from holdfast.model.run import Run
from holdfast.testing.crash import FLAVOURS, Call, Flavour
from holdfast.testing.crash_homes import FileHome, Home, MemoryHome
from holdfast.testing.crash_world import Effect, Plant, Scenario, World
from holdfast.testing.invariants import check

Kind = Literal["memory", "sqlite"] | Callable[[], Home]
"""Where a world keeps its runs; a call gives an empty home of another kind."""


class Point(NamedTuple):
    """What goes wrong at which call."""

    place: int
    flavour: Flavour
    call: Call

    @property
    def name(self) -> str:
        """What to call this point by, to try it alone: the same code and seed have the same."""
        return f"{self.flavour}@{self.place}"

    def __str__(self) -> str:
        return f"{self.flavour} call {self.place}, {self.call}"


@dataclass
class Report:
    """What a sweep did and what it found."""

    scenario: str
    store: str
    points: list[Point] = field(default_factory=list[Point])
    executed: list[Point] = field(default_factory=list[Point])
    violations: list[str] = field(default_factory=list[str])
    failing: Point | None = None
    """The first point at which something was wrong; None if it was without a fault."""

    @property
    def methods(self) -> frozenset[str]:
        """The methods of the store at whose calls something went wrong."""
        return frozenset(point.call.method for point in self.executed)

    def __str__(self) -> str:
        counts = Counter(point.flavour for point in self.executed)
        listed = ", ".join(f"{count} {flavour}" for flavour, count in sorted(counts.items()))
        return (
            f"{self.scenario} on {self.store}: {len(self.executed)} of {len(self.points)} points "
            f"({listed}), {len(self.violations)} violations"
        )


def sweep(
    scenario: Scenario,
    store: Kind,
    *,
    plant: Callable[[], Plant] = Plant,
    seed: int | None = None,
    stop_at_first: bool = False,
    only: str | slice = "",
) -> Report:
    """Try every point of the scenario, or the one whose name is given, or a slice of them."""
    report = Report(scenario.name, str(store))
    calm = run(scenario, store, plant=plant(), seed=seed)
    report.violations += [f"undisturbed: {found}" for found in faults_of(calm, None)]
    report.points = _chosen(points_of(calm), only)
    for point in report.points:
        if report.violations and stop_at_first:
            break
        world = run(scenario, store, {point.place: point.flavour}, plant=plant(), seed=seed)
        found = faults_of(world, calm)
        if world.plan.fired == [point.place] and world.plan.calls[point.place] == point.call:
            report.executed.append(point)
        else:
            found.append("the world went another way before the point")
        if found and not report.violations:
            report.failing = point
        report.violations += [f"{point}: {each}" for each in found]
    return report


def _chosen(points: Iterator[Point], only: str | slice) -> list[Point]:
    if isinstance(only, slice):
        return list(points)[only]
    return [point for point in points if only in ("", point.name)]


def sweep_twice(scenario: Scenario, store: Kind, flavour: Flavour = "after") -> Report:
    """Crash once at every call, and in each of those worlds once more at every later call."""
    report = Report(f"{scenario.name}, twice", str(store))
    calm = run(scenario, store)
    for first in points_of(calm):
        if first.flavour != flavour:
            continue
        once = run(scenario, store, {first.place: flavour})
        for place in range(first.place + 1, len(once.plan.calls)):
            call = once.plan.calls[place]
            if call.method == "now":
                continue
            point = Point(place, flavour, call)
            report.points.append(point)
            twice = run(scenario, store, {first.place: flavour, place: flavour})
            if twice.plan.fired == [first.place, place]:
                report.executed.append(point)
            report.violations += [f"{first}, then {point}: {f}" for f in faults_of(twice, calm)]
    return report


def run(
    scenario: Scenario,
    store: Kind,
    faults: dict[int, Flavour] | None = None,
    *,
    plant: Plant | None = None,
    seed: int | None = None,
) -> World:
    """Let a scenario happen once, with faults at these calls."""
    scenario.prepare()
    with _home(store) as home:
        return World(scenario, home, faults or {}, plant or Plant(), seed).run()


def points_of(calm: World) -> Iterator[Point]:
    """Yield all that can go wrong at each call of an undisturbed run."""
    for place, call in enumerate(calm.plan.calls):
        if calm.scenario.only_commits and place not in calm.plan.commits:
            continue
        for flavour in FLAVOURS[call.method]:
            yield Point(place, flavour, call)
        if call.method not in ("now", "listen"):
            for flavour in calm.scenario.flavours:
                yield Point(place, flavour, call)


@contextmanager
def _home(store: Kind) -> Generator[Home]:
    if callable(store):
        yield store()
        return
    if store == "memory":
        yield MemoryHome()
        return
    # In memory where that is possible: durability is tested elsewhere, and a sync takes its time.
    shared = Path("/dev/shm")  # noqa: S108
    folder = Path(
        tempfile.mkdtemp(prefix="holdfast-crash-", dir=shared if shared.is_dir() else None)
    )
    try:
        yield FileHome(folder)
    finally:
        shutil.rmtree(folder)


# --- what must hold


def faults_of(world: World, calm: World | None) -> list[str]:
    """Return all that is wrong with the end of a world; `calm` is the undisturbed one."""
    broken = [*check(world.dump), *world.plan.watcher.violations]
    found = [*world.problems, *map(str, broken), *_told_wrong(world)]
    # A step that outlasts the drain of a deploy counts as not attempted, and runs again.
    found += _effects_wrong(world, calm is None and world.scenario.deploys_at is None)
    found += world.scenario.check(world)
    if calm is not None and not world.scenario.either:
        ends, expected = ends_of(world), ends_of(calm)
        for run in sorted(ends.keys() | expected.keys()):
            found += _differences(run, ends.get(run), expected.get(run))
    return found


def _differences(
    run: str, end: dict[str, Any] | None, expected: dict[str, Any] | None
) -> list[str]:
    if end is None or expected is None:
        return [] if end == expected else [f"run {run} is {end}, and should be {expected}"]
    return [
        f"the {name} of run {run}: {end[name]!r}, and should be {expected[name]!r}"
        for name in expected
        if end[name] != expected[name]
    ]


def ends_of(world: World) -> dict[str, dict[str, Any]]:
    """Return how each run stands at the end, without times, owners and counts of executions."""
    loose = world.scenario.loose
    return {run.id: _end_of(run, world.dump, loose) for run in world.dump.runs}


def _end_of(run: Run, dump: Dump, loose: frozenset[str]) -> dict[str, Any]:
    living = [e for e in dump.events[run.ns, run.id] if e.superseded_by is None]
    return {
        "status": run.status,
        "generation": run.generation,
        "unread": run.inbox_seq - run.inbox_read,
        "close": [_close(e, run, loose) for e in living if CLASS_OF[e.kind] == "close"],
        "answers": sorted(_content(e, loose) for e in living if CLASS_OF[e.kind] == "answer"),
        "messages": [e.key for e in living if CLASS_OF[e.kind] == "message"],
        "attempts": sorted(
            e.key for e in living if e.kind == "step.retrying" and not _is_loose(e, loose)
        ),
    }


def _close(event: Event, run: Run, loose: frozenset[str]) -> tuple[str, str, str]:
    kind, key, text = _content(event, loose)
    is_loose = kind == "run.completed" and run.workflow in loose
    return kind, key, "" if is_loose else text


def _content(event: Event, loose: frozenset[str]) -> tuple[str, str, str]:
    """Return what of an event must be the same in every world."""
    text = (event.payload or b"").decode()
    if event.kind in ("timer.fired", "run.terminated", "run.timed_out") or _is_loose(event, loose):
        text = ""
    elif event.kind in ("step.failed", "update.failed", "run.failed", "run.compensation_failed"):
        failure = decode_failure(event.payload)
        text = f"{failure.type}: {failure.message}, attempt {failure.attempts}"
    return event.kind, event.key, text


def _is_loose(event: Event, loose: frozenset[str]) -> bool:
    return event.key.split("#")[0] in loose


def _told_wrong(world: World) -> Iterator[str]:
    for run in world.told.early:
        yield f"the end of run {run} was told before it was stored"
    told: dict[str, set[str]] = {}
    for run, ending in world.told.endings:
        told.setdefault(run, set()).add(repr(ending))
    generations = {run.id: run.generation for run in world.dump.runs}
    for run, endings in told.items():
        if len(endings) > generations.get(run.partition(" ")[0], 0):
            yield f"callers were told different ends of run {run}: {sorted(endings)}"


def _effects_wrong(world: World, is_calm: bool) -> Iterator[str]:
    """Every recorded step ran, and none ran again after its record but in a zombie's hands."""
    if any(each.key == "outside" for each in world.effects):
        yield "a step's body ran outside of any attempt"
    for (_, run), events in world.dump.events.items():
        shared = max((event.seq for event in events if event.kind == "run.forked"), default=0)
        for event in events[shared:]:
            if event.kind in ("step.completed", "step.failed") and not _is_unknown(event):
                mine = [e for e in world.effects if _is_of(e, run, event)]
                for problem in _executions_wrong(event, mine, is_calm):
                    yield f"{event.key} of {run} {problem}"


def _is_unknown(event: Event) -> bool:
    """Tell whether nobody claims to know if the step ran."""
    is_failure = event.kind == "step.failed"
    return is_failure and decode_failure(event.payload).type == StepOutcomeUnknown.__name__


def _is_of(effect: Effect, run: str, event: Event) -> bool:
    wanted = (run, event.key, event.generation)
    return (effect.run, effect.key, effect.generation) == wanted


def _executions_wrong(event: Event, mine: list[Effect], is_calm: bool) -> Iterator[str]:
    if event.is_cached:
        if is_calm and mine:
            yield "is recorded as cached and ran"
    elif not mine:
        yield "is recorded and never ran"
    late = [each for each in mine if each.at > event.at and not each.by_zombie]
    if late:
        yield f"ran {len(late)} times after its record"
    if is_calm and len(mine) != len({each.number for each in mine}):
        yield f"ran {len(mine)} times in an undisturbed world"
