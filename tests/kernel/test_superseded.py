"""Which events a retry takes back: the close, the failures in its cause, what came of them."""

import pytest

from holdfast.kernel.retry import superseded
from holdfast.model.events import Event, Failure
from holdfast.model.failures import encode_failure


def event(seq: int, kind, key: str = "", asked: int = 0, cause: tuple[str, ...] = ()) -> Event:
    payload = encode_failure(Failure("E", "m", cause=cause)) if kind in FAILED else None
    return Event(kind, seq, key, payload, asked, seq=seq)


FAILED = ("run.failed", "run.compensation_failed")

START = event(1, "run.started")

CASES: dict[str, tuple[tuple[Event, ...], tuple[int, ...]]] = {
    "a body that raised loses only its close": (
        (START, event(2, "step.completed", "a#1", 1), event(3, "run.failed")),
        (3,),
    ),
    "the failure in the cause goes with the close": (
        (START, event(2, "step.failed", "a#1", 1), event(3, "run.failed", cause=("a#1",))),
        (2, 3),
    ),
    "its recorded attempts go too": (
        (
            START,
            event(2, "step.retrying", "a#1", 1),
            event(3, "step.retrying", "b#1", 1),
            event(4, "step.failed", "a#1", 1),
            event(5, "run.failed", cause=("a#1",)),
        ),
        (2, 4, 5),
    ),
    "siblings asked before the failure stay": (
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "step.failed", "b#1", 2),
            event(4, "step.completed", "c#1", 2),
            event(5, "run.failed", cause=("b#1",)),
        ),
        (3, 5),
    ),
    "what was noted on seeing the failure goes, what was asked is for the replay to judge": (
        (
            START,
            event(2, "step.failed", "a#1", 1),
            event(3, "step.completed", "undo#1", 2),
            event(4, "timer.fired", "sleep#1", 3),
            event(5, "note.decided", "x", 2),
            event(6, "step.started", "undo#2", 3),
            event(7, "run.failed", cause=("a#1",)),
        ),
        (2, 5, 7),
    ),
    "a failure the body caught and survived stays": (
        (
            START,
            event(2, "step.failed", "a#1", 1),
            event(3, "step.completed", "b#1", 2),
            event(4, "step.failed", "c#1", 3),
            event(5, "run.failed", cause=("c#1",)),
        ),
        (4, 5),
    ),
    "several causes go": (
        (
            START,
            event(2, "step.failed", "a#1", 1),
            event(3, "step.failed", "b#1", 1),
            event(4, "step.completed", "c#1", 2),
            event(5, "run.failed", cause=("b#1", "a#1")),
        ),
        (2, 3, 5),
    ),
    "messages stay, whenever they came": (
        (
            START,
            event(2, "signal.received", "go/s1"),
            event(3, "step.failed", "a#1", 2),
            event(4, "signal.received", "go/s2"),
            event(5, "cancel.requested", "c1"),
            event(6, "run.failed", cause=("a#1",)),
        ),
        (3, 6),
    ),
    "marks of the run itself stay": (
        (
            START,
            event(2, "run.paused", "p1"),
            event(3, "run.resumed"),
            event(4, "step.failed", "a#1", 1),
            event(5, "run.failed", cause=("a#1",)),
        ),
        (4, 5),
    ),
    "a second retry takes back the second failure": (
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(5, "run.reopened"),
            event(6, "step.failed", "b#1", 2),
            event(7, "run.failed", cause=("b#1",)),
        ),
        (6, 7),
    ),
    "a run that owes undos loses only its close: what led to them must lead to them again": (
        (
            START,
            event(2, "deadline.passed"),
            event(3, "step.failed", "a#1", 1),
            event(4, "step.failed", "undo(b#1)/c#1", 3),
            event(5, "run.compensation_failed", cause=("a#1",)),
        ),
        (5,),
    ),
    "a cause that is not in the history takes nothing else": (
        (START, event(2, "step.completed", "a#1", 1), event(3, "run.failed", cause=("gone#1",))),
        (3,),
    ),
}


@pytest.mark.parametrize(("history", "expected"), CASES.values(), ids=CASES.keys())
def test_a_retry_takes_back(history: tuple[Event, ...], expected: tuple[int, ...]) -> None:
    assert superseded(history) == expected
