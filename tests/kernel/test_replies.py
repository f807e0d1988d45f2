"""What each outcome means to the caller: a reply, or the error that says what to do."""

import pytest

from holdfast.errors import (
    HoldfastError,
    IllegalMove,
    RunClosed,
    RunConflict,
    RunNotFound,
    StoreError,
)
from holdfast.kernel.dispatch import decide, read
from holdfast.model.annotations import Annotations
from holdfast.model.commands import (
    CancelRun,
    Command,
    CommitTurn,
    PauseRun,
    PruneRuns,
    QuarantineRun,
    ReapLeases,
    RenewLease,
    RerunRun,
    ResumeRun,
    RetireWorker,
    RetryRun,
    SignalRun,
    StartRun,
    TerminateRun,
)
from holdfast.model.events import Event
from holdfast.model.status import CLOSED, OPEN, RUN_MOVES, movable_to
from holdfast.model.writes import Advance, Outcome
from tests.model.rows import run

HISTORY = (Event("run.started", 1, seq=1), Event("run.failed", 2, seq=2))
START = StartRun("default", "r", "w", "1", b"in", b"d", 9)
SIGNAL = SignalRun("default", "r", "go", b"1", "m", 9)
CANCEL = CancelRun("default", "r", "m", 9)
PAUSE = PauseRun("default", "r", "m", 9)
TERMINATE = TerminateRun("default", "r", 9)
RESUME = ResumeRun("default", "r", 9)
QUARANTINE = QuarantineRun("default", "r", 9, "why")
RERUN = RerunRun("default", "r", 1, (), 9)
RETRY = RetryRun("default", "r", "failed", HISTORY, 9)
TURN = CommitTurn("default", "r", "A", 1, 2, (Event("step.completed", 9, "a#1", seq=3),), 9)
PARK = TURN._replace(events=(), status="waiting", inbox_seq=0)
TAKES = TURN._replace(events=(Event("cancel.requested", 9, seq=3),))

MESSAGES = (SIGNAL, CANCEL, PAUSE)
MOVES = (TERMINATE, RESUME, QUARANTINE, RETRY)


@pytest.mark.parametrize("command", MESSAGES)
def test_a_stored_message_is_new(command: Command) -> None:
    assert read(command, Outcome(True, run(inbox_seq=1))) is True


@pytest.mark.parametrize("command", [*MESSAGES, *MOVES])
def test_an_unknown_run_is_not_found(command: Command) -> None:
    with pytest.raises(RunNotFound):
        read(command, Outcome(False))


@pytest.mark.parametrize("command", MESSAGES)
@pytest.mark.parametrize("status", sorted(CLOSED))
def test_a_closed_run_takes_no_message(command: Command, status) -> None:
    with pytest.raises(RunClosed, match=status):
        read(command, Outcome(False, run(status=status)))


@pytest.mark.parametrize(
    ("command", "outcome"),
    [
        (SIGNAL, Outcome(False, run(), total=1)),
        (SIGNAL, Outcome(False, run(status="completed"), total=1)),
        (CANCEL, Outcome(False, run(cancel=1))),
        (CANCEL, Outcome(False, run(cancel=2))),
        (CANCEL, Outcome(False, run(status="cancelled", cancel=2))),
        (CANCEL, Outcome(False, run(status="completed", cancel=2))),
        (PAUSE, Outcome(False, run(), total=1)),
    ],
)
def test_a_repeated_message_is_no_error(command: Command, outcome: Outcome) -> None:
    assert read(command, outcome) is False


@pytest.mark.parametrize("command", MOVES)
def test_a_move_that_was_made_gives_the_row(command: Command) -> None:
    row = run(epoch=2)
    assert read(command, Outcome(True, row)) is row


LEGAL = {
    TERMINATE: movable_to("terminated"),
    RESUME: frozenset({"paused"}),
    QUARANTINE: movable_to("quarantined"),
    RETRY: frozenset({"failed", "timed_out", "compensation_failed", "blocked", "quarantined"}),
}


@pytest.mark.parametrize("command", MOVES, ids=lambda command: type(command).__name__)
@pytest.mark.parametrize("status", sorted(RUN_MOVES))
def test_a_refused_move_says_why(command: Command, status) -> None:
    legal = LEGAL[command]  # type: ignore[index]
    closed = status in CLOSED and legal <= OPEN
    expected: type[HoldfastError] = RunClosed if closed else IllegalMove
    with pytest.raises(expected, match=status) as caught:
        read(command, Outcome(False, run(status=status)))
    if isinstance(caught.value, IllegalMove):
        assert caught.value.allowed == tuple(sorted(legal))


@pytest.mark.parametrize("status", sorted(RUN_MOVES))
def test_a_rerun_of_a_run_that_moved_on_is_decided_again(status) -> None:
    if status in movable_to("pending"):
        assert read(RERUN, Outcome(False, run(status=status))) is None
    else:
        with pytest.raises(IllegalMove, match=status):
            read(RERUN, Outcome(False, run(status=status)))


@pytest.mark.parametrize("applied", [True, False])
def test_a_start_gives_the_run_new_or_found(*, applied: bool) -> None:
    assert read(START, Outcome(applied, run())) == run()


@pytest.mark.parametrize(
    ("row", "differs"),
    [
        (run(workflow="x"), "workflow"),
        (run(input_digest=b"e"), "input"),
        (run(workflow="x", input_digest=b"e"), "workflow"),
    ],
)
def test_a_start_of_other_work_is_a_conflict(row, differs: str) -> None:
    with pytest.raises(RunConflict, match=differs):
        read(START, Outcome(False, row))


def test_a_store_that_forgets_the_row_is_told_so() -> None:
    with pytest.raises(StoreError):
        read(START, Outcome(False))


@pytest.mark.parametrize(
    ("command", "outcome", "reply"),
    [
        (TURN, Outcome(True, None, 3, 0), "applied"),
        (TURN, Outcome(False), "lost"),
        (TURN, Outcome(False, run(epoch=2)), "lost"),
        (TURN, Outcome(False, run(epoch=0)), "lost"),
        (TURN, Outcome(False, run(owner="B")), "lost"),
        (TURN, Outcome(False, run(status="waiting", owner=None)), "lost"),
        (TURN, Outcome(False, run(status="terminated", seq=3)), "lost"),
        (TURN, Outcome(False, run(seq=3)), "moved"),
        (TURN, Outcome(False, run(seq=3, cancel=1)), "moved"),
        (TURN, Outcome(False, run(cancel=1)), "cancel"),
        (PARK, Outcome(False, run(cancel=1, inbox_seq=1)), "cancel"),
        (PARK, Outcome(False, run(inbox_seq=1)), "mail"),
        (PARK, Outcome(False, run(cancel=2, inbox_seq=1)), "mail"),
        (TURN._replace(due=50), Outcome(False, run()), "early"),
        (TAKES._replace(due=50), Outcome(False, run(cancel=1)), "early"),
        (PARK._replace(due=50), Outcome(False, run()), "early"),
    ],
)
def test_what_became_of_a_turn(command: Command, outcome: Outcome, reply: str) -> None:
    assert read(command, outcome) == reply


@pytest.mark.parametrize(("turn", "takes"), [(TURN, False), (PARK, False), (TAKES, True)])
def test_only_a_turn_that_records_the_cancel_takes_it(turn: CommitTurn, *, takes: bool) -> None:
    write = decide(turn)
    assert isinstance(write, Advance)
    assert write.takes_cancel is takes


def test_a_turn_becomes_a_write_field_by_field() -> None:
    said = Annotations((), (), ("a",))
    turn = CommitTurn(
        "n", "r", "A", 3, 7, HISTORY, 9, "waiting", "why", 20, 4, 5, 11, (6,), 8, 10, said
    )
    write = decide(turn)._asdict()
    assert (write.pop("takes_cancel"), write.pop("progresses")) == (False, True)
    assert write.pop("not_before") == 11
    assert write == {name: value for name, value in turn._asdict().items() if name != "due"}


@pytest.mark.parametrize(
    ("command", "outcome", "reply"),
    [
        (RenewLease("A", 5), Outcome(True, total=0), True),
        (RenewLease("A", 5), Outcome(True, total=1), False),
        (ReapLeases("A"), Outcome(False), 0),
        (ReapLeases("A"), Outcome(True, total=3), 3),
        (RetireWorker("A"), Outcome(True), True),
        (RetireWorker("A"), Outcome(False), False),
        (PruneRuns("n", 5), Outcome(True, total=2), 2),
    ],
)
def test_replies_about_workers_and_pruning(command: Command, outcome: Outcome, reply) -> None:
    assert read(command, outcome) == reply
