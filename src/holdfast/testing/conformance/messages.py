"""Messages: accepted means stored, once for each id, in order, and never lost."""

from __future__ import annotations

import asyncio

from holdfast.errors import RunClosed, RunNotFound
from holdfast.model.run import Message
from holdfast.model.status import CLOSED, OPEN
from holdfast.testing.clock import MINUTE
from holdfast.testing.conformance.harness import Harness, event, ids, refused


async def test_a_signal_waits_in_the_inbox_until_it_is_read(harness: Harness) -> None:
    await harness.start("r")
    at = harness.store.now()
    assert await harness.signal("s1", name="approved", payload=b'{"by":"me"}')
    loaded = await harness.load("r")
    assert loaded.mail == (Message("s1", "signal", "approved", b'{"by":"me"}', at, n=1),)
    assert (loaded.run.inbox_seq, loaded.run.inbox_read, loaded.run.seq) == (1, 0, 1)
    assert loaded.run.has_mail


async def test_signals_keep_the_order_of_acceptance(harness: Harness) -> None:
    await harness.start("r")
    names = ["b", "a", "c10", "c9", "0"]
    for name in names:
        await harness.signal(name)
    mail = (await harness.load("r")).mail
    assert [(message.id, message.n) for message in mail] == [
        (name, n) for n, name in enumerate(names, start=1)
    ]


async def test_signals_of_one_batch_keep_their_order(harness: Harness) -> None:
    await harness.start("r")
    names = [f"s{n}" for n in range(50, 0, -1)]
    assert await harness.send_all([harness.signalling(name) for name in names]) == [True] * 50
    assert [message.id for message in (await harness.load("r")).mail] == names


async def test_signals_at_the_same_time_are_all_kept(harness: Harness) -> None:
    await harness.start("r")
    await asyncio.gather(*(harness.signal(f"s{n}") for n in range(50)))
    mail = (await harness.load("r")).mail
    assert {message.id for message in mail} == {f"s{n}" for n in range(50)}
    assert [message.n for message in mail] == list(range(1, 51))


async def test_a_repeated_signal_changes_nothing(harness: Harness) -> None:
    await harness.start("r")
    await harness.signal("s1", payload=b"1")
    before = await harness.load("r")
    harness.clock.advance()
    assert not await harness.signal("s1", payload=b"2")
    assert await harness.load("r") == before


async def test_a_repeat_in_the_same_batch_changes_nothing(harness: Harness) -> None:
    await harness.start("r")
    both = [harness.signalling("s1"), harness.signalling("s1")]
    assert await harness.send_all(both) == [True, False]
    assert (await harness.row("r")).inbox_seq == 1


async def test_a_signal_is_a_repeat_also_after_it_was_read(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    received = event("signal.received", "go/s1", payload=b"null")
    assert await harness.commit(run, received, inbox_read=1) == "applied"
    assert not await harness.signal("s1")
    loaded = await harness.load("r")
    assert (loaded.mail, loaded.run.inbox_seq, loaded.run.has_mail) == ((), 1, False)


async def test_a_repeat_to_a_closed_run_is_still_a_repeat(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s1")
    await harness.end(run)
    assert not await harness.signal("s1")


async def test_only_unread_messages_are_loaded(harness: Harness) -> None:
    run = await harness.held("r")
    for name in ("s1", "s2", "s3"):
        await harness.signal(name)
    assert await harness.commit(run, event("signal.received", "go/s1"), inbox_read=1) == "applied"
    assert [message.id for message in (await harness.load("r")).mail] == ["s2", "s3"]
    assert [message.id for message in (await harness.load("r", after=2)).mail] == ["s2", "s3"]


async def test_ids_of_signals_belong_to_their_run(harness: Harness) -> None:
    await harness.start("one")
    await harness.start("two")
    assert await harness.signal("s1", run="one")
    assert await harness.signal("s1", run="two")


async def test_an_open_run_takes_signals_in_every_status(harness: Harness) -> None:
    for status in OPEN:
        before = await harness.in_status(status, id=status)
        assert await harness.signal("s1", run=status), status
        after = await harness.row(status)
        assert (after.status, after.inbox_seq) == (status, before.inbox_seq + 1)


async def test_a_closed_run_refuses_signals(harness: Harness) -> None:
    for status in CLOSED:
        before = await harness.in_status(status, id=status)
        with refused(RunClosed):
            await harness.signal("s1", run=status)
        assert await harness.row(status) == before


async def test_an_unknown_run_refuses_signals(harness: Harness) -> None:
    with refused(RunNotFound):
        await harness.signal("s1", run="nobody")
    with refused(RunNotFound):
        await harness.cancel("nobody")
    with refused(RunNotFound):
        await harness.move("pause", "nobody")


async def test_a_message_wakes_a_waiting_run(harness: Harness) -> None:
    await harness.park(await harness.held("r"))
    assert (await harness.claim("B")).runs == ()
    await harness.signal("s1")
    assert (await harness.row("r")).wake_at == harness.store.now()
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_a_message_wakes_a_run_that_waits_for_a_timer(harness: Harness) -> None:
    await harness.park(await harness.held("r"), wake_at=harness.store.now() + MINUTE)
    await harness.signal("s1")
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_a_message_does_not_wake_a_run_that_must_not_go_on(harness: Harness) -> None:
    for status in ("paused", "blocked", "quarantined"):
        before = await harness.in_status(status, id=status)
        await harness.signal("s1", run=status)
        after = await harness.row(status)
        assert (after.status, after.wake_at) == (before.status, before.wake_at)
    assert (await harness.claim("B")).runs == ()


async def test_a_message_does_not_begin_a_delayed_run(harness: Harness) -> None:
    later = harness.store.now() + MINUTE
    await harness.start("r", wake_at=later)
    await harness.signal("s1")
    assert (await harness.row("r")).wake_at == later


async def test_a_pause_is_a_message(harness: Harness) -> None:
    await harness.park(await harness.held("r"))
    assert await harness.move("pause")
    assert not await harness.move("pause")
    [message] = (await harness.load("r")).mail
    assert (message.kind, message.id) == ("pause", "p1")
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_a_closed_run_refuses_a_pause(harness: Harness) -> None:
    await harness.closed("r")
    with refused(RunClosed):
        await harness.move("pause")
