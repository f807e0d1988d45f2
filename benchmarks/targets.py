"""What Holdfast on SQLite promises, against the peers and the raw limit of the same run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from benchmarks.figures import Figures, Value
from benchmarks.work import FIGURES, TIMES, WORKS

OURS = "holdfast/sqlite"
LANGGRAPH = ("langgraph/sqlite",)
DBOS = ("dbos/sqlite-wal", "dbos/sqlite")
PEERS = (*LANGGRAPH, *DBOS)

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


def times_as_good(key: str, others: Sequence[str]) -> Reading:
    """Read by what factor we beat the best of `others` in a round."""
    figure = FIGURES[key]

    def read(figures: Figures, round_: int) -> Value:
        ours = figures.in_round(OURS, key, round_)
        theirs = figures.best_in_round(others, figure, round_)
        if not ours or not theirs:
            return None
        return theirs / ours if figure.better == "lower" else ours / theirs

    return read


def itself(key: str) -> Reading:
    return lambda figures, round_: figures.in_round(OURS, key, round_)


TARGETS = (
    Target(
        "w1", "a step, of one raw synced commit", TIMES, "at most", 2.0, 1.5,
        itself("over_raw"),
    ),
    Target(
        "w1", "a step, as fast as LangGraph", "times", "at least", 2.5, None,
        times_as_good("step_ms", LANGGRAPH),
    ),
    Target(
        "w1", "a step, as fast as DBOS", "times", "at least", 4.0, None,
        times_as_good("step_ms", DBOS),
    ),
    Target(
        "w1", "50 at a time, the best peer's rate", "times", "at least", 20.0, 40.0,
        times_as_good("steps_s", PEERS),
    ),
    Target(
        "w2", "fan-out, as fast as LangGraph", "times", "at least", 19.0, 29.0,
        times_as_good("fan_s", LANGGRAPH),
    ),
    Target("w3", "start to result, p50", "ms", "at most", 2.5, None, itself("pickup_ms")),
    Target(
        "w4", "1,000 steps, killed, to the next", "ms", "at most", 10.0, None,
        itself("resume_ms"),
    ),
    Target(
        "w4", "10,000 steps, killed, to the next", "ms", "at most", 100.0, None,
        itself("resume_long_ms"),
    ),
    Target("w5", "memory a live run", "KiB", "at most", 4.0, None, itself("live_kib")),
    # "Nothing": no more than SQLite's page cache of 2 MB, spread over the runs, can explain.
    Target("w5", "memory a parked run", "KiB", "at most", 0.2, None, itself("parked_kib")),
    Target("w5", "on disk a run", "KiB", "at most", 2.0, None, itself("disk_kib")),
)  # fmt: skip


def judge(figures: Figures, works: Sequence[str], *, quick: bool) -> list[Verdict]:
    """Return a verdict on each target of the works that were run at a size that can tell."""
    judged = [work for work in works if WORKS[work].judged_small or not quick]

    def over_rounds(target: Target) -> list[float]:
        return figures.over_rounds(lambda round_: target.read(figures, round_))

    return [Verdict(target, over_rounds(target)) for target in TARGETS if target.work in judged]
