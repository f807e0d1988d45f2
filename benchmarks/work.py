"""The pieces of work, how big they are, and the figures they yield.

Every driver does the same work with the same result of a step, so this file imports nothing
that a peer's virtual environment might lack.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

STEPS = 10  # in a chain
AT_ONCE = 50  # chains in flight, W1's second half
BIG = "x" * 1_000_000  # W6: of the state, what no node changes
TIMES = "\N{MULTIPLICATION SIGN}"


def small_result(i: int) -> dict[str, object]:
    """Return what every trivial step of every engine returns."""
    return {"i": i, "ok": True, "name": "step", "payload": "x" * 40}


def changed(i: int) -> str:
    """Return the 100 bytes that a node of every engine changes of a large state."""
    return f"{i:0100d}"


@dataclass(frozen=True, slots=True)
class Size:
    """How much of the work is done. Paced work is bounded by time, so all get the same share."""

    chain_seconds: float  # W1 one after another
    crowd_seconds: float  # W1 50 at a time
    fan: int  # W2 parallel steps
    processes: int  # a round, of works that tell of one process (`Work.is_lone`)
    pickups: int  # W3 one after another
    burst: int  # W3 all at once
    history: int  # W4 completed steps
    long_history: int  # W4 again, to see that it is linear (ours only)
    waiting: int  # W5 waiting runs
    rounds: int  # W6 nodes of a loop
    big: int  # W6 nodes that change a little of a large state
    big_peer: int  # the same of LangGraph, which on SQLite stores the state whole each time
    parked: int  # W5 again, more than a worker keeps in memory (ours only)
    many: int  # W8 runs in all
    spread: int  # W9 steps of one map
    parts: int  # W10 children that start children
    each: int  # W10 children of each
    asleep: int  # W12 runs whose timers are far away
    timers: int  # W12 runs whose timers come due


FULL = Size(
    chain_seconds=1.0,
    crowd_seconds=2.0,
    fan=1_000,
    processes=3,
    pickups=100,
    burst=1_000,
    history=1_000,
    long_history=10_000,
    waiting=10_000,
    rounds=1_000,
    big=1_000,
    big_peer=100,
    parked=100_000,
    many=100_000,
    spread=10_000,
    parts=100,
    each=1_000,
    asleep=10_000,
    timers=500,
)
QUICK = Size(
    chain_seconds=0.3,
    crowd_seconds=0.5,
    fan=1_000,
    processes=1,
    pickups=20,
    burst=100,
    history=1_000,
    long_history=10_000,
    waiting=500,
    rounds=100,
    big=100,
    big_peer=20,
    parked=2_000,
    many=4_000,
    spread=1_000,
    parts=4,
    each=100,
    asleep=500,
    timers=50,
)


@dataclass(frozen=True, slots=True)
class Work:
    id: str
    name: str
    what: str  # a template, filled in with the size
    each_round: bool = True  # False: measured in the first round only
    judged_small: bool = True  # False: a quick run cannot tell whether its targets are met
    is_lone: bool = False
    """Done by one process, which is asked several times: one that stays on a core to which the disk
    does not report pays 30 to 70 us more for each commit than one that is on the other."""


WORKS: Mapping[str, Work] = {
    work.id: work
    for work in (
        Work(
            "w1",
            "chain",
            "10 steps in sequence; one run after another, then 50 at a time",
            is_lone=True,
        ),
        Work(
            "w2",
            "fan-out",
            "one run of {0.fan:,} parallel steps, summed, in a cold process",
            is_lone=True,
        ),
        Work("w3", "pick-up", "a client process starts a one-step run, a worker process runs it"),
        Work("w4", "resume", "{0.history:,} steps done, SIGKILL, a new process reaches the next"),
        # Memory does not move with the neighbours' load, and 10,000 runs take the peers minutes.
        # Of a few runs, what a worker holds anyway would be most of what each seems to hold.
        Work(
            "w5",
            "waiting",
            "{0.waiting:,} runs waiting for a signal, then {0.parked:,} parked",
            each_round=False,
            judged_small=False,
        ),
        Work(
            "w6",
            "graph",
            "10 nodes in sequence; a loop of {0.rounds:,} nodes; {0.big:,} nodes that change 100 "
            "bytes of a state of 1 MB",
            is_lone=True,
        ),
        Work(
            "w8",
            "size",
            "{0.many:,} runs of three steps, queued; one worker process, then two",
            each_round=False,
            judged_small=False,
        ),
        Work("w9", "spread", "one run maps a step over {0.spread:,} items", each_round=False),
        Work(
            "w10",
            "children",
            "{0.parts:,} children that start {0.each:,} one-step children each",
            each_round=False,
        ),
        Work(
            "w11",
            "exactly once",
            "10 transactional steps in sequence, each adds a row; as the chain",
            each_round=False,
        ),
        Work(
            "w12",
            "timers",
            "{0.timers:,} timers of parked runs come due, while {0.asleep:,} others sleep",
            each_round=False,
            judged_small=False,
        ),
        Work("w13", "job", "a run asks for a step on a queue that another process serves"),
        Work("w14", "encryption", "the chain with a key ring, in turns with one without"),
    )
}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number a piece of work yields. `follows`: its variant is the one best at that figure."""

    key: str
    work: str
    title: str  # a template, filled in with the size
    unit: str
    better: Literal["lower", "higher"] = "lower"
    follows: str = ""

    def best(self, values: Sequence[float]) -> float:
        return min(values) if self.better == "lower" else max(values)


FIGURES: Mapping[str, Figure] = {
    figure.key: figure
    for figure in (
        Figure("step_ms", "w1", "one after another, a step, p50", "ms"),
        Figure("step_p99_ms", "w1", "the same, p99", "ms", follows="step_ms"),
        Figure("alone_ms", "w1", "the event alone, a step, p50", "ms"),
        Figure("over_raw", "w1", "of a raw commit, measured in turns", TIMES),
        Figure("steps_s", "w1", "50 at a time", "steps/s", better="higher"),
        Figure("fan_s", "w2", "{0.fan:,} parallel steps", "s"),
        Figure("pickup_ms", "w3", "start to result, p50", "ms"),
        Figure("pickup_p99_ms", "w3", "the same, p99", "ms", follows="pickup_ms"),
        Figure("runs_s", "w3", "{0.burst:,} at once", "runs/s", better="higher"),
        Figure("resume_ms", "w4", "killed after {0.history:,} steps, to the next", "ms"),
        Figure("replay_ms", "w4", "of which replay", "ms", follows="resume_ms"),
        Figure("resume_long_ms", "w4", "killed after {0.long_history:,} steps, to the next", "ms"),
        Figure("replay_us", "w4", "replay alone, {0.long_history:,} steps, a step", "us"),
        Figure("live_kib", "w5", "worker memory a live run", "KiB"),
        Figure("parked_kib", "w5", "worker memory a parked run, of {0.parked:,}", "KiB"),
        Figure("disk_kib", "w5", "on disk a run", "KiB"),
        Figure("parked_disk_kib", "w5", "on disk a run, of {0.parked:,}", "KiB"),
        Figure("node_ms", "w6", "10 nodes, a node, p50", "ms"),
        Figure("loop_ms", "w6", "a loop of {0.rounds:,}, a node", "ms"),
        Figure("big_ms", "w6", "a state of 1 MB, a node", "ms"),
        Figure("node_bytes", "w6", "a state of 1 MB, stored a node", "bytes"),
        Figure("graph_resume_ms", "w6", "the same, killed, to the next node", "ms"),
        Figure("many_s", "w8", "{0.many:,} queued runs, one host", "runs/s", better="higher"),
        Figure("flat", "w8", "the last tenth's rate, of the first tenth's", TIMES, better="higher"),
        Figure("growth_kib", "w8", "worker memory a run done", "KiB"),
        Figure("two_s", "w8", "{0.many:,} queued runs, two hosts", "runs/s", better="higher"),
        Figure("claim_ms", "w8", "a claim, the queue empty", "ms"),
        Figure("claim_full_ms", "w8", "a claim, {0.many:,} runs queued", "ms"),
        Figure("spread_s", "w9", "{0.spread:,} steps, 100 at a time", "s"),
        Figure("children_s", "w10", "children", "runs/s", better="higher"),
        Figure("exact_ms", "w11", "one after another, a step, p50", "ms"),
        Figure("exact_s", "w11", "50 at a time", "steps/s", better="higher"),
        Figure("family_mib", "w10", "worker memory, when all are done", "MiB"),
        Figure("late_ms", "w12", "a timer's lateness, {0.asleep:,} others asleep, p50", "ms"),
        Figure("late_p99_ms", "w12", "the same, p99", "ms", follows="late_ms"),
        Figure("job_ms", "w13", "asked to begun elsewhere, p50", "ms"),
        Figure("job_p99_ms", "w13", "the same, p99", "ms", follows="job_ms"),
        Figure("job_result_ms", "w13", "asked to its result, p50", "ms"),
        Figure("sealed_us", "w14", "encryption, a step, time of the processor", "us"),
        Figure("sealed_ratio", "w14", "of the processor's time of a plain step", TIMES),
        Figure("claim_ratio", "w8", "of the claim with an empty queue", TIMES),
    )
}
