"""The tables of legal moves are whole, and walked."""

from holdfast.model.events import CLASS_OF, FED
from holdfast.model.status import CLAIMABLE, CLOSED, OPEN, QUEUED, RUN_MOVES, STEP_MOVES, movable_to


def reachable(start: str, moves) -> set[str]:
    seen, todo = {start}, [start]
    while todo:
        for status in moves[todo.pop()] - seen:
            seen.add(status)
            todo.append(status)
    return seen


def test_every_status_is_open_or_closed() -> None:
    assert RUN_MOVES.keys() == OPEN | CLOSED
    assert not OPEN & CLOSED
    assert QUEUED < CLAIMABLE < OPEN


def test_every_status_can_be_reached_and_every_open_run_can_end() -> None:
    assert reachable("pending", RUN_MOVES) == set(RUN_MOVES)
    for status in OPEN:
        assert "terminated" in RUN_MOVES[status]
    assert reachable("asked", STEP_MOVES) == set(STEP_MOVES)


def test_only_running_and_reopening_cross_the_border() -> None:
    for status, moves in RUN_MOVES.items():
        closing = moves & CLOSED - {"terminated"}
        # One that may no longer begin ends where it waits.
        assert closing <= ({"timed_out"} if status == "pending" else closing)
        assert not closing or status in ("running", "pending")
        if status in CLOSED:
            assert moves <= {"pending"}


def test_origins_are_the_table_read_backwards() -> None:
    for status in RUN_MOVES:
        assert movable_to(status) == {origin for origin in RUN_MOVES if status in RUN_MOVES[origin]}
    assert movable_to("terminated") == OPEN
    assert movable_to("quarantined") == QUEUED


def test_every_closed_status_has_its_event() -> None:
    closes = {kind for kind, group in CLASS_OF.items() if group == "close"}
    assert closes == {f"run.{status}" for status in CLOSED}


def test_a_body_is_never_fed_marks_or_closes() -> None:
    assert {CLASS_OF[kind] for kind in FED} == {"start", "answer", "message", "note"}
