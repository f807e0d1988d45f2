"""How long a run stood still is read from the journal and the history."""

from chaos.evidence import Evidence, Fault
from chaos.journal import Line, Pages
from chaos.recovery import stops
from holdfast.model.dump import Dump
from holdfast.model.events import Event, EventKind

SECOND = 1_000_000
KILLED = Fault("SIGKILL", 10 * SECOND, (7,))


def line(at: float, pid: int = 7, key: str = "a#1") -> Line:
    return Line("r", key, 1, 1, pid, "mark", round(at * SECOND))


def event(kind: EventKind, at: float, key: str = "a#1") -> Event:
    return Event(kind, round(at * SECOND), key)


def stopped(lines: list[Line], events: list[Event]) -> list[float]:
    history = {("default", "r"): tuple(events)}
    evidence = Evidence(Dump(0, events=history), Pages(tuple(lines)), {}, (KILLED,))
    return [stop.seconds for stop in stops(evidence)]


def test_a_step_under_way_is_hit_until_the_next_event_of_its_run() -> None:
    events = [event("run.started", 9), event("step.completed", 12.5), event("run.completed", 13)]
    assert stopped([line(9.9), line(12.4, pid=8)], events) == [2.5]


def test_a_recorded_step_is_not_hit() -> None:
    events = [event("step.completed", 9.95), event("step.completed", 12, "b#1")]
    assert stopped([line(9.9)], events) == []


def test_another_host_is_not_hit() -> None:
    assert stopped([line(9.9, pid=8)], [event("step.completed", 12)]) == []


def test_an_attempt_after_a_recorded_failure_is_hit() -> None:
    events = [event("step.retrying", 9.5), event("step.completed", 11)]
    assert stopped([line(9.4), line(9.8)], events) == [1.0]
