"""Moves: what people do to a run from outside, whoever holds it."""

from __future__ import annotations

from holdfast.errors import HoldfastError, IllegalMove, RunClosed, RunNotFound
from holdfast.model.status import CLOSED, OPEN, RUN_MOVES, RunStatus
from holdfast.testing.conformance.harness import Harness, answer, event, ids, refused


async def refuses(
    harness: Harness, what: str, status: RunStatus, error: type[HoldfastError]
) -> None:
    """Hold that a run in `status` refuses the move and stays as it is."""
    before = await harness.in_status(status, id=status)
    with refused(error):
        await harness.move(what, status)
    assert await harness.row(status) == before


async def test_every_open_run_can_be_terminated(harness: Harness) -> None:
    for status in OPEN:
        before = await harness.in_status(status, id=status)
        at = harness.clock.advance()
        ended = await harness.move("terminate", status)
        assert (ended.status, ended.reason, ended.owner) == ("terminated", "tired", None)
        assert (ended.epoch, ended.seq) == (before.epoch + 1, before.seq + 1)
        assert (ended.closed_at, ended.wake_at) == (at, None)
        last = (await harness.load(status)).events[-1]
        assert (last.kind, last.seq, last.epoch) == ("run.terminated", ended.seq, ended.epoch)
        assert await harness.row(status) == ended
    assert (await harness.claim("B")).runs == ()


async def test_terminating_fences_off_the_holder(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.move("terminate")
    before = await harness.load("r")
    assert await harness.commit(run, answer()) == "lost"
    assert await harness.commit(run._replace(epoch=2, seq=2), answer()) == "lost"
    assert await harness.load("r") == before


async def test_a_closed_run_is_not_terminated(harness: Harness) -> None:
    for status in CLOSED:
        await refuses(harness, "terminate", status, RunClosed)


async def test_an_unknown_run_is_not_moved(harness: Harness) -> None:
    for what in ("terminate", "resume", "quarantine"):
        with refused(RunNotFound):
            await harness.move(what, "nobody")


async def test_the_holder_carries_a_pause_out(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.move("pause")
    paused = await harness.commit(run, event("run.paused"), status="paused", inbox_read=1)
    assert paused == "applied"
    row = await harness.row("r")
    assert (row.status, row.owner, row.has_mail) == ("paused", None, False)
    assert (await harness.claim("B")).runs == ()


async def test_a_paused_run_is_resumed(harness: Harness) -> None:
    paused = await harness.in_status("paused")
    at = harness.clock.advance()
    resumed = await harness.move("resume")
    assert (resumed.status, resumed.wake_at, resumed.epoch) == ("pending", at, paused.epoch + 1)
    assert resumed.seq == paused.seq + 1
    assert await harness.kinds("r") == ["run.started", "run.paused", "run.resumed"]
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_only_a_paused_run_is_resumed(harness: Harness) -> None:
    for status in OPEN - {"paused"}:
        await refuses(harness, "resume", status, IllegalMove)
    for status in CLOSED:
        await refuses(harness, "resume", status, RunClosed)


async def test_a_claimable_run_is_quarantined(harness: Harness) -> None:
    for status in ("pending", "waiting"):
        before = await harness.in_status(status, id=status)
        apart = await harness.move("quarantine", status)
        assert (apart.status, apart.reason) == ("quarantined", "it kills")
        assert (apart.epoch, apart.seq) == (before.epoch + 1, before.seq + 1)
        assert (apart.wake_at, apart.closed_at) == (None, None)
        assert (await harness.kinds(status))[-1] == "run.quarantined"
    assert (await harness.claim("B")).runs == ()


async def test_a_run_that_is_not_claimable_is_not_quarantined(harness: Harness) -> None:
    for status in RUN_MOVES:
        if status not in ("pending", "waiting"):
            error = RunClosed if status in CLOSED else IllegalMove
            await refuses(harness, "quarantine", status, error)


async def test_a_move_does_not_stamp_before_the_last_event(harness: Harness) -> None:
    run = await harness.held("r")
    ahead = harness.store.now() + 5
    turn = harness.turn(run, answer())
    turn = turn._replace(events=(turn.events[0]._replace(at=ahead),))
    assert await harness.send(turn) == "applied"
    await harness.move("terminate")
    assert [each.at for each in (await harness.load("r")).events[1:]] == [ahead, ahead]


async def test_a_move_clears_the_strikes(harness: Harness) -> None:
    await harness.held("r", worker="A")
    await harness.reap("A", known_dead=True)
    assert (await harness.move("quarantine")).strikes == 0


async def test_messages_outlive_a_pause(harness: Harness) -> None:
    await harness.in_status("paused")
    await harness.signal("s1")
    await harness.move("resume")
    [run] = (await harness.claim("B")).runs
    assert run.has_mail
    assert [message.id for message in (await harness.load("r")).mail] == ["s1"]
