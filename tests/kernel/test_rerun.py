"""Which events a rerun takes back: the outcome of the call, and what was asked for later."""

import json

import pytest

from holdfast.errors import UnknownKey
from holdfast.kernel.dispatch import decide
from holdfast.kernel.rerun import superseded
from holdfast.model.commands import RerunRun
from holdfast.model.events import COMPENSATION, Event
from holdfast.model.writes import Move, Rewind


def event(seq: int, kind, key: str = "", asked: int = 0, generation: int = 1) -> Event:
    return Event(kind, seq, key, None, asked, seq=seq, generation=generation)


START = event(1, "run.started")

CASES: dict[str, tuple[str | int | None, tuple[Event, ...], tuple[int, ...]]] = {
    "a number is the last event that counts, and what was asked for by then stays": (
        3,
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "step.completed", "b#1", 2),
            event(4, "cancel.requested"),
            event(5, "step.completed", "c#1", 3),
            event(6, "step.completed", "clean#1", 4),
            event(7, "run.cancelled"),
        ),
        (4, 6, 7),
    ),
    "the last step loses its answer and the run its close": (
        "b#1",
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "step.completed", "b#1", 2),
            event(4, "run.completed"),
        ),
        (3, 4),
    ),
    "what was asked for later goes, of every kind": (
        "a#1",
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "step.failed", "b#1", 2),
            event(4, "timer.fired", "timer#1", 3),
            event(5, "child.closed", "child#1", 4),
            event(6, "step.started", "c#1", 5),
            event(7, "run.failed"),
        ),
        (2, 3, 4, 5, 6, 7),
    ),
    "siblings asked for at or before stay, with their attempts": (
        "b#1",
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "step.completed", "b#1", 2),
            event(4, "step.retrying", "c#1", 2),
            event(5, "step.completed", "c#1", 2),
            event(6, "step.completed", "d#1", 1),
            event(7, "step.completed", "e#1", 3),
        ),
        (3, 7),
    ),
    "the end of an update that is unread again goes, in whatever turn it was said": (
        "b#1",
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "update.accepted", "add/u1"),
            event(4, "step.completed", "b#1", 2),
            event(5, "step.completed", "c#1", 2),
            event(6, "update.completed", "add/u1", 5),
        ),
        (3, 4, 6),
    ),
    "notes of turns that stay, stay": (
        "b#1",
        (
            START,
            event(2, "note.patched", "x", 1),
            event(3, "step.completed", "b#1", 1),
            event(4, "note.patched", "y", 3),
            event(5, "step.completed", "c#1", 1),
            event(6, "note.patched", "z", 5),
        ),
        (3, 4),
    ),
    "messages after the cut go, also if they came before the answer": (
        "b#1",
        (
            START,
            event(2, "signal.received", "go/1"),
            event(3, "step.completed", "a#1", 2),
            event(4, "signal.received", "go/2"),
            event(5, "step.completed", "b#1", 3),
            event(6, "cancel.requested", "c1"),
            event(7, "deadline.passed"),
            event(8, "run.cancelled"),
        ),
        (4, 5, 6, 7, 8),
    ),
    "what the store noted of the run stays": (
        "a#1",
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "run.paused", "p1"),
            event(4, "run.resumed"),
            event(5, "run.blocked"),
            event(6, "run.reopened"),
            event(7, "run.reopened", COMPENSATION),
        ),
        (2, 7),
    ),
    "from the start everything goes": (
        None,
        (
            START,
            event(2, "note.patched", "x", 1),
            event(3, "step.completed", "a#1", 1),
            event(4, "signal.received", "go/1"),
            event(5, "run.completed"),
        ),
        (3, 4, 5),
    ),
    "what was undone since is done again": (
        "pay#1",
        (
            START,
            event(2, "step.completed", "look#1", 1),
            event(3, "step.completed", "book#1", 2),
            event(4, "step.failed", "pay#1", 3),
            event(5, "step.completed", "undo(book#1)/release#1", 4),
            event(6, "run.failed"),
        ),
        (3, 4, 5, 6),
    ),
    "what is inside of an undone branch is done again": (
        "pay#1",
        (
            START,
            event(2, "step.completed", "trip[1]/hotel#1", 1),
            event(3, "step.completed", "trip[1]/flight#1", 2),
            event(4, "step.failed", "pay#1", 3),
            event(5, "step.completed", "undo(trip[1])/release#1", 4),
        ),
        (2, 3, 4, 5),
    ),
    "what could not be undone still stands": (
        "pay#1",
        (
            START,
            event(2, "step.completed", "book#1", 1),
            event(3, "step.failed", "pay#1", 2),
            event(4, "step.failed", "undo(book#1)/release#1", 3),
            event(5, "run.compensation_failed"),
        ),
        (3, 4, 5),
    ),
    "an undo that is meant runs again by itself": (
        "undo(b#1)/release#1",
        (
            START,
            event(2, "step.completed", "a#1", 1),
            event(3, "step.completed", "b#1", 2),
            event(4, "step.completed", "undo(b#1)/release#1", 3),
            event(5, "step.completed", "undo(a#1)/release#1", 4),
            event(6, "run.failed"),
        ),
        (4, 5, 6),
    ),
    "a step that only began is a place too": (
        "b#1",
        (START, event(2, "step.completed", "a#1", 1), event(3, "step.started", "b#1", 2)),
        (3,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_exactly_these_are_taken_back(name: str) -> None:
    key, history, expected = CASES[name]
    assert tuple(event.seq for event in superseded(history, key, "r")) == expected


def test_an_unknown_key_names_the_known_ones() -> None:
    history = (START, event(2, "step.completed", "a#1", 1), event(3, "note.patched", "x", 1))
    with pytest.raises(UnknownKey) as caught:
        superseded(history, "x", "r")
    assert caught.value.known == ("a#1",)
    with pytest.raises(UnknownKey, match="nothing under '4'"):
        superseded(history, 4, "r")


def test_signals_go_back_and_a_cancel_is_forgotten() -> None:
    history = CASES["messages after the cut go, also if they came before the answer"][1]
    write = decide(RerunRun("ns", "r", 1, history, 9, "b#1"))
    assert isinstance(write, Move)
    assert write.rewind == Rewind(("2",), forgets_cancel=True)
    assert write.seq == 8


def test_the_keys_of_a_former_generation_are_kept_over_and_over() -> None:
    first = RerunRun("ns", "r", 1, (START,), 9, keep_keys=True)
    write = decide(first)
    assert isinstance(write, Move)
    assert json.loads(write.event.payload or b"") == {"keys": 1}
    reopened = write.event._replace(seq=2, generation=2)
    again = decide(RerunRun("ns", "r", 2, (START, reopened), 9, keep_keys=True))
    assert isinstance(again, Move)
    assert json.loads(again.event.payload or b"") == {"keys": 1}


def test_who_goes_back_exactly_keeps_nothing_that_was_recorded_later() -> None:
    history = (
        START,
        event(2, "step.completed", "a#1", 1),
        event(3, "note.decided", "x", 2),
        event(4, "step.completed", "b#1", 1),
        event(5, "step.retrying", "c#1", 2),
        event(6, "note.decided", "y", 4),
        event(7, "run.completed"),
    )
    assert [each.seq for each in superseded(history, 2, "r")] == [7]
    assert [each.seq for each in superseded(history, 2, "r", exactly=True)] == [4, 6, 7]
