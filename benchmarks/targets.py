"""What Holdfast promises on each database, against the peers and the raw limit of the same run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchmarks.figures import Figures, Value
from benchmarks.work import FIGURES, TIMES, WORKS

OURS = {"sqlite": "holdfast/sqlite", "postgres": "holdfast/postgres"}
LANGGRAPH = {"sqlite": ("langgraph/sqlite",), "postgres": ("langgraph/postgres",)}
DBOS = {"sqlite": ("dbos/sqlite-wal", "dbos/sqlite"), "postgres": ("dbos/postgres",)}
QUEUES = {"sqlite": (), "postgres": ("pgqueuer/postgres", "procrastinate/postgres")}
PEERS = {family: (*LANGGRAPH[family], *DBOS[family], *QUEUES[family]) for family in OURS}

Reading = Callable[[Figures, int], Value]


@dataclass(frozen=True, slots=True)
class Target:
    work: str
    what: str
    unit: str
    bound: Literal["at most", "at least"]
    goal: float
    stretch: float | None
    read: Reading

    def meets(self, value: float, goal: float) -> bool:
        return value <= goal if self.bound == "at most" else value >= goal


@dataclass(frozen=True, slots=True)
class Verdict:
    """How one target came out: the median of the rounds, and what each round gave."""

    target: Target
    rounds: Sequence[float]

    @property
    def value(self) -> Value:
        return median(self.rounds) if self.rounds else None

    @property
    def met(self) -> bool | None:
        return None if self.value is None else self.target.meets(self.value, self.target.goal)

    @property
    def stretched(self) -> bool | None:
        if self.value is None or self.target.stretch is None:
            return None
        return self.target.meets(self.value, self.target.stretch)


def times_as_good(key: str, ours: str, others: Sequence[str]) -> Reading:
    """Read by what factor we beat the best of `others` in a round."""
    figure = FIGURES[key]

    def read(figures: Figures, round_: int) -> Value:
        here = figures.in_round(ours, key, round_)
        theirs = figures.best_in_round(others, figure, round_)
        if not here or not theirs:
            return None
        return theirs / here if figure.better == "lower" else here / theirs

    return read


@dataclass(frozen=True, slots=True)
class Goals:
    """The numbers of one database; a pair is a target and its stretch."""

    family: str
    raw_ms: float  # one raw commit, where the targets in milliseconds were set
    over_raw: tuple[float, float]
    langgraph: float
    dbos: float | None
    crowd: tuple[float, float]
    fan: tuple[float, float]
    pickup_ms: float
    resume_ms: float
    resume_long_ms: float

    def targets(self) -> Iterator[Target]:
        langgraph, dbos, peers = (of[self.family] for of in (LANGGRAPH, DBOS, PEERS))
        yield Target(
            "w1",
            "a step, of one raw synced commit",
            TIMES,
            "at most",
            *self.over_raw,
            self.itself("over_raw"),
        )
        yield Target(
            "w1",
            "a step, as fast as LangGraph",
            "times",
            "at least",
            self.langgraph,
            None,
            self.beats("step_ms", langgraph),
        )
        if self.dbos is not None:
            yield Target(
                "w1",
                "a step, as fast as DBOS",
                "times",
                "at least",
                self.dbos,
                None,
                self.beats("step_ms", dbos),
            )
        yield Target(
            "w1",
            "50 at a time, the best peer's rate",
            "times",
            "at least",
            *self.crowd,
            self.beats("steps_s", peers),
        )
        yield Target(
            "w2",
            "fan-out, as fast as LangGraph",
            "times",
            "at least",
            *self.fan,
            self.beats("fan_s", langgraph),
        )
        yield self.at_most("w3", "start to result, p50", "ms", self.pickup_ms, "pickup_ms")
        yield self.at_most(
            "w4", "1,000 steps, killed, to the next", "ms", self.resume_ms, "resume_ms"
        )
        yield self.at_most(
            "w4", "10,000 steps, killed, to the next", "ms", self.resume_long_ms, "resume_long_ms"
        )
        yield self.at_most("w5", "memory a live run", "KiB", 4.0, "live_kib")
        # "Nothing": no more than SQLite's page cache of 2 MB, spread over the runs, can explain.
        yield self.at_most("w5", "memory a parked run", "KiB", 0.2, "parked_kib")
        yield self.at_most("w5", "on disk a run", "KiB", 2.0, "disk_kib")
        yield self.at_most("w5", "on disk a run, of 100,000", "KiB", 2.0, "parked_disk_kib")
        for what, key in (
            ("a node, as fast as LangGraph", "node_ms"),
            ("a node of a loop, as fast as LangGraph", "loop_ms"),
            ("a node with 1 MB of state, as fast as LangGraph", "big_ms"),
        ):
            yield Target("w6", what, "times", "at least", 3.0, None, self.beats(key, langgraph))
        # Four times what a node changes, and 600.
        yield self.at_most(
            "w6", "stored a node that changes 100 bytes", "bytes", 1_000.0, "node_bytes"
        )
        yield Target(
            "w8",
            "the last tenth's rate, of the first tenth's",
            TIMES,
            "at least",
            0.8,
            None,
            self.itself("flat"),
        )
        yield self.at_most("w8", "memory a run done", "KiB", 0.05, "growth_kib")
        yield self.at_most("w8", "a claim, full queue to empty", TIMES, 2.0, "claim_ratio")

        yield Target(
            "w11",
            "exactly-once steps, 50 at a time, the rate of DBOS",
            "times",
            "at least",
            1.0,
            None,
            self.beats("exact_s", dbos),
        )
        yield self.at_most("w12", "a timer's lateness, p50", "ms", 50.0, "late_ms")
        if queues := QUEUES[self.family]:
            yield Target(
                "w13",
                "a job's pick-up, as fast as the best queue",
                "times",
                "at least",
                1.0,
                None,
                self.beats("job_ms", queues),
            )
        yield self.at_most("w14", "an encrypted step, of a plain one", TIMES, 1.25, "sealed_ratio")

    def beats(self, key: str, others: Sequence[str]) -> Reading:
        return times_as_good(key, OURS[self.family], others)

    def itself(self, key: str) -> Reading:
        return lambda figures, round_: figures.in_round(OURS[self.family], key, round_)

    def at_most(self, work: str, what: str, unit: str, goal: float, key: str) -> Target:
        return Target(work, what, unit, "at most", goal, None, self.itself(key))


GOALS = {
    "sqlite": Goals(
        "sqlite", raw_ms=0.187, over_raw=(2.0, 1.5), langgraph=2.5, dbos=4.0,
        crowd=(20.0, 40.0), fan=(19.0, 29.0), pickup_ms=2.5, resume_ms=10.0, resume_long_ms=100.0,
    ),
    "postgres": Goals(
        "postgres", raw_ms=0.281, over_raw=(2.0, 1.6), langgraph=3.5, dbos=None,
        crowd=(19.0, 34.0), fan=(18.0, 27.0), pickup_ms=3.0, resume_ms=20.0, resume_long_ms=200.0,
    ),
}  # fmt: skip


def judge(family: str, figures: Figures, works: Sequence[str], *, quick: bool) -> list[Verdict]:
    """Return a verdict on each target of the works that were run at a size that can tell."""
    judged = [work for work in works if WORKS[work].judged_small or not quick]

    def over_rounds(target: Target) -> list[float]:
        return figures.over_rounds(lambda round_: target.read(figures, round_))

    targets = [target for target in GOALS[family].targets() if target.work in judged]
    return [Verdict(target, over_rounds(target)) for target in targets]
