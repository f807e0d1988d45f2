"""Every command has its rule, and its write is guarded by the table of legal moves."""

from typing import get_args

import pytest

from holdfast.kernel.dispatch import RULES, decide
from holdfast.kernel.retry import REOPENED, RESUMED
from holdfast.model import commands
from holdfast.model.commands import (
    CancelRun,
    Command,
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
from holdfast.model.status import RUN_MOVES, movable_to
from holdfast.model.writes import Create, Move, Prune, Put, Reap, Renew, Retire

FAILED = (Event("run.started", 1, seq=1), Event("run.failed", 2, seq=2))


def retry(status) -> RetryRun:
    return RetryRun("ns", "r", status, FAILED, 9)


MOVES: list[Command] = [
    TerminateRun("ns", "r", 9, "why"),
    ResumeRun("ns", "r", 9),
    QuarantineRun("ns", "r", 9, "why"),
    *(retry(status) for status in sorted(RESUMED | REOPENED)),
    RerunRun("ns", "r", 1, FAILED, 9),
]


def test_every_command_has_a_rule() -> None:
    assert set(get_args(commands.Command)) == set(RULES)


@pytest.mark.parametrize("command", MOVES, ids=lambda command: type(command).__name__)
def test_a_move_starts_only_where_the_table_allows_it(command: Command) -> None:
    write = decide(command)
    assert isinstance(write, Move)
    assert write.origins
    assert write.origins <= movable_to(write.status)
    assert write.event.kind in {f"run.{write.status}", "run.resumed", "run.reopened"}
    assert (write.ns, write.run, write.event.at) == ("ns", "r", 9)


def test_the_moves_cover_every_way_back_to_pending() -> None:
    writes = [decide(command) for command in MOVES]
    back = [write for write in writes if isinstance(write, Move) and write.status == "pending"]
    assert frozenset().union(*(write.origins for write in back)) == movable_to("pending")


def test_terminate_and_quarantine_start_wherever_they_may() -> None:
    terminate, _, quarantine = (decide(command) for command in MOVES[:3])
    assert isinstance(terminate, Move)
    assert isinstance(quarantine, Move)
    assert terminate.origins == movable_to("terminated")
    assert quarantine.origins == movable_to("quarantined")
    assert (terminate.wake_at, quarantine.wake_at) == (None, None)


@pytest.mark.parametrize(
    "command",
    [ResumeRun("ns", "r", 9), retry("failed"), retry("blocked"), RerunRun("ns", "r", 1, FAILED, 9)],
)
def test_what_goes_back_to_work_is_claimable_at_once(command: Command) -> None:
    write = decide(command)
    assert isinstance(write, Move)
    assert (write.status, write.wake_at) == ("pending", 9)


@pytest.mark.parametrize("status", sorted(RUN_MOVES))
def test_a_retry_is_guarded_by_the_history_it_was_decided_on(status) -> None:
    write = decide(retry(status))
    assert isinstance(write, Move)
    assert write.seq == 2
    assert write.reopens == (status in REOPENED)
    assert bool(write.supersedes) == write.reopens
    assert status not in write.origins or status in REOPENED | RESUMED


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (RenewLease("A", 5, "@a", "i"), Renew("A", 5, "@a", "i")),
        (ReapLeases("A"), Reap("A", False)),
        (ReapLeases("A", known_dead=True), Reap("A", True)),
        (RetireWorker("A"), Retire("A")),
        (PruneRuns("ns", 7), Prune("ns", 7, 1_000)),
        (PruneRuns("ns", 7, 3), Prune("ns", 7, 3)),
    ],
)
def test_plain_commands_become_plain_writes(command: Command, expected: object) -> None:
    assert decide(command) == expected


@pytest.mark.parametrize(
    ("command", "kind", "cancels"),
    [
        (SignalRun("ns", "r", "go", b"1", "m", 9), "signal", False),
        (CancelRun("ns", "r", "m", 9, "why"), "cancel", True),
        (PauseRun("ns", "r", "m", 9, "why"), "pause", False),
    ],
)
def test_messages_go_to_the_inbox(command: Command, kind: str, *, cancels: bool) -> None:
    write = decide(command)
    assert isinstance(write, Put)
    assert (write.ns, write.run, write.cancels) == ("ns", "r", cancels)
    assert (write.message.kind, write.message.id, write.message.at) == (kind, "m", 9)
    assert write.message.n == 0


@pytest.mark.parametrize(
    ("owner", "wake_at", "epoch", "wakes"), [(None, 0, 0, 9), ("A", 0, 1, 9), (None, 20, 0, 20)]
)
def test_a_start_becomes_a_run_and_its_first_event(owner, wake_at, epoch, wakes) -> None:
    write = decide(StartRun("ns", "r", "w", "1", b"in", b"d", 9, wake_at, owner))
    assert isinstance(write, Create)
    assert (write.owner, write.wake_at) == (owner, wakes)
    assert write.event == Event("run.started", 9, payload=b"in", seq=1, epoch=epoch)
