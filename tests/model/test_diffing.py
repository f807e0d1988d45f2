"""Two histories are compared key by key."""

import json

from holdfast.model.diffing import diff, generation_of
from holdfast.model.events import Event
from holdfast.model.travel import Edit, told_edits


def event(seq: int, kind, key: str = "", payload: bytes = b"1", **fields) -> Event:
    return Event(kind, seq, key, payload, seq=seq, **fields)


START = event(1, "run.started", payload=b"{}")


def told(a: tuple[Event, ...], b: tuple[Event, ...]) -> dict[str, tuple[str, tuple[str, ...]]]:
    return {item.key: (item.verdict, item.differs) for item in diff(a, b).items}


def test_equal_histories_are_the_same_whatever_time_they_took() -> None:
    a = (START, event(2, "step.completed", "a#1", took=5), event(3, "run.completed"))
    b = (
        START,
        event(2, "step.retrying", "a#1"),
        event(3, "step.completed", "a#1", took=7),
        event(4, "run.completed"),
    )
    assert diff(a, b).is_same
    assert told(a, b) == {
        "input": ("same", ()),
        "a#1": ("same", ("attempts", "took")),
        "end": ("same", ()),
    }


def test_each_difference_is_named() -> None:
    a = (
        START,
        event(2, "step.completed", "a#1", b"1", digest=b"12345678schemaaa"),
        event(3, "step.failed", "b#1", b'{"message": "x"}'),
        event(4, "step.completed", "c#1"),
        event(5, "run.completed", payload=b"1"),
    )
    b = (
        event(1, "run.started", payload=b'{"n": 2}'),
        event(2, "step.completed", "a#1", b"2", digest=b"87654321schemaaa"),
        event(3, "step.failed", "b#1", b'{"message": "y"}'),
        event(4, "step.completed", "d#1"),
        event(5, "run.failed", payload=b"1"),
    )
    assert told(a, b) == {
        "input": ("differs", ("input",)),
        "a#1": ("differs", ("input", "result")),
        "b#1": ("differs", ("error",)),
        "c#1": ("only in a", ()),
        "d#1": ("only in b", ()),
        "end": ("differs", ("kind",)),
    }
    first = diff(a, b).first
    assert first is not None
    assert first.key == "input"


def test_signals_are_compared_in_their_order() -> None:
    a = (START, event(2, "signal.received", "go/x1", b"1"), event(3, "signal.received", "go/x2"))
    b = (START, event(2, "signal.received", "go/y1", b"2"))
    assert told(a, b) == {
        "input": ("same", ()),
        "go/1": ("differs", ("value",)),
        "go/2": ("only in a", ()),
    }


def test_what_no_longer_counts_is_no_difference() -> None:
    gone = event(2, "step.completed", "a#1", superseded_by=3)
    history = (START, gone, event(3, "run.reopened", generation=2))
    assert told(history, history) == {"input": ("same", ())}
    before = generation_of(history, 1)
    assert before is not None
    assert told(before, history) == {"input": ("same", ()), "a#1": ("only in a", ())}
    assert generation_of(history, 3) is None


def test_parts_of_a_continued_run_are_told_apart() -> None:
    a = (
        START,
        event(2, "step.completed", "a#1", b"1"),
        event(3, "run.continued", generation=2),
        event(4, "step.completed", "a#1", b"2", generation=2),
    )
    b = (*a[:3], event(4, "step.completed", "a#1", b"3", generation=2))
    assert told(a, b) == {
        "input": ("same", ()),
        "a#1": ("same", ()),
        "2:input": ("same", ()),
        "2:a#1": ("differs", ("result",)),
    }


def test_states_that_forks_were_given_are_compared() -> None:
    def forked(change: bytes) -> tuple[Event, ...]:
        states = told_edits([Edit(2, "a.next#1", "a:1", change)])
        mark = event(3, "run.forked", payload=json.dumps({"states": states}).encode())
        return START, event(2, "step.completed", "a#1"), mark

    one, two = forked(b'{"set": {"n": 1}}'), forked(b'{"set": {"n": 2}}')
    assert diff(one, one).is_same
    assert told(one, two)["state after a:1"] == ("differs", ("state",))
    gone = (*one[:2], event(3, "step.completed", "b#1"))
    assert [*told(gone, two)] == ["input", "a#1", "state after a:1", "b#1"]
    assert told(gone, two)["state after a:1"] == ("only in b", ())
