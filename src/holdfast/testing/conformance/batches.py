"""Batches: many writes in one call, each whole or not at all, in order."""

from __future__ import annotations

import asyncio

from holdfast.errors import RunConflict, StoreError
from holdfast.kernel.dispatch import decide
from holdfast.model.commands import Command
from holdfast.model.run import Run
from holdfast.model.writes import Write
from holdfast.testing.conformance.harness import Harness, answer, event, refused


def bad_turn(harness: Harness, run: Run) -> Write:
    """Return a write whose guard holds and whose events cannot be stored: number 1 is taken."""
    turn = harness.turn(run, answer())
    return decide(turn._replace(events=(turn.events[0]._replace(seq=1),)))


async def test_an_empty_batch_is_nothing(harness: Harness) -> None:
    assert await harness.store.write([]) == []


async def test_a_batch_of_many_writes_is_carried_out_in_order(harness: Harness) -> None:
    starts = [harness.starting(f"r{n}") for n in range(200)]
    signals = [harness.signalling("s1", run=f"r{n}") for n in range(200)]
    replies = await harness.send_all([*starts, *signals])
    assert [run.id for run in replies[:200]] == [start.id for start in starts]
    assert replies[200:] == [True] * 200
    assert (await harness.row("r199")).inbox_seq == 1


async def test_a_later_write_sees_the_earlier_ones(harness: Harness) -> None:
    run = await harness.held("r")
    first = harness.turn(run, answer("a#1"))
    second = harness.turn(run._replace(seq=2), answer("b#1"))
    repeat = harness.turn(run, answer("c#1"))
    assert await harness.send_all([first, second, repeat]) == ["applied", "applied", "moved"]
    assert [each.key for each in (await harness.load("r")).events] == ["", "a#1", "b#1"]


async def test_a_refused_write_does_not_stop_the_others(harness: Harness) -> None:
    one, two = await harness.held("one"), await harness.held("two")
    stale = two._replace(epoch=0)
    turns = [harness.turn(each, answer()) for each in (one, stale, two)]
    assert await harness.send_all(turns) == ["applied", "lost", "applied"]


async def test_a_batch_that_cannot_be_stored_leaves_nothing(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.signal("s0")
    before = await harness.load("r")
    batch = [
        decide(harness.starting("new")),
        decide(harness.signalling("s1", run="new")),
        decide(harness.signalling("s1")),
        bad_turn(harness, run),
    ]
    with refused(StoreError):
        await harness.store.write(batch)
    assert await harness.store.load("default", "new") is None
    assert await harness.load("r") == before
    assert (await harness.claim("B")).runs == ()


async def test_a_turn_that_cannot_be_stored_leaves_nothing_of_itself(harness: Harness) -> None:
    run = await harness.held("r")
    before = await harness.load("r")
    good, bad = answer("a#1"), answer("b#1")
    turn = harness.turn(run, good, bad)
    clash = (turn.events[0], turn.events[1]._replace(seq=2))
    with refused(StoreError):
        await harness.store.write([decide(turn._replace(events=clash))])
    assert await harness.load("r") == before
    assert await harness.commit(run, good, bad) == "applied"


async def test_a_failing_write_takes_no_other_with_it(harness: Harness) -> None:
    run, other = await harness.held("r"), await harness.held("other")
    calls = [[decide(harness.starting(f"r{n}"))] for n in range(10)]
    calls.insert(5, [bad_turn(harness, run)])
    calls.append([decide(harness.turn(other, answer()))])
    results = await asyncio.gather(*map(harness.store.write, calls), return_exceptions=True)
    assert [type(result) for result in results if isinstance(result, BaseException)] != []
    assert isinstance(results[5], StoreError)
    assert sum(isinstance(result, BaseException) for result in results) == 1
    assert [(await harness.row(f"r{n}")).status for n in range(10)] == ["pending"] * 10
    assert (await harness.row("other")).seq == 2
    assert await harness.row("r") == run


async def test_a_run_goes_on_after_a_failed_write(harness: Harness) -> None:
    run = await harness.held("r")
    with refused(StoreError):
        await harness.store.write([bad_turn(harness, run)])
    assert await harness.commit(run, event("run.completed"), status="completed") == "applied"


async def test_turns_of_many_runs_at_the_same_time_are_all_stored(harness: Harness) -> None:
    runs = [await harness.held(f"r{n}") for n in range(50)]
    for n in range(3):
        replies = await asyncio.gather(*(harness.commit(run, answer(f"a#{n}")) for run in runs))
        assert set(replies) == {"applied"}
        runs = [run._replace(seq=run.seq + 1) for run in runs]
    assert [(await harness.row(run.id)).seq for run in runs] == [4] * 50


async def test_a_caller_that_went_away_leaves_its_write_whole(harness: Harness) -> None:
    run = await harness.held("r")
    task = asyncio.ensure_future(harness.commit(run, answer("a#1"), answer("b#1")))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await harness.start("after")
    assert (await harness.row("r")).seq in (1, 3)
    assert len((await harness.load("r")).events) == (await harness.row("r")).seq


async def test_many_turns_at_once_and_only_the_refused_are_refused(harness: Harness) -> None:
    """A store may write them together: one that lost its lease must not touch the others."""
    runs = [await harness.held(f"r{n}") for n in range(12)]
    await harness.signal("s1", run="r5")
    turns = [harness.turn(run, answer()) for run in runs]
    turns[3] = turns[3]._replace(epoch=turns[3].epoch - 1)
    became = await asyncio.gather(*(harness.send(turn) for turn in turns))
    assert became == ["lost" if n == 3 else "applied" for n in range(12)]
    rows = [await harness.row(run.id) for run in runs]
    assert [row.seq for row in rows] == [1 if n == 3 else 2 for n in range(12)]
    assert rows[5].has_mail


async def test_many_runs_begin_go_on_and_close_at_once(harness: Harness) -> None:
    """A store may write each kind together: one that is refused must not touch the others."""
    turning = [await harness.held(f"t{n}") for n in range(8)]
    closing = [await harness.held(f"c{n}") for n in range(8)]
    await harness.signal("s1", run="c5")
    taken = await harness.held("s3", input=b'{"n":1}')
    ends = (answer(), event("run.completed", payload=b"1"))
    commands: list[Command] = [harness.turn(run, answer()) for run in turning]
    commands += [harness.turn(run, *ends, status="completed") for run in closing]
    commands += [harness.starting(f"s{n}", owner="A") for n in range(8)]
    commands[9] = harness.turn(closing[1]._replace(seq=7), *ends, status="completed")

    became = await asyncio.gather(*map(harness.send, commands), return_exceptions=True)
    assert became[:8] == ["applied"] * 8
    assert became[8:16] == ["moved" if n == 1 else "applied" for n in range(8)]
    assert isinstance(became[19], RunConflict)
    closed = [await harness.row(run.id) for run in closing]
    assert [row.status for row in closed] == [
        "running" if n == 1 else "completed" for n in range(8)
    ]
    assert [row.seq for row in closed] == [1 if n == 1 else 3 for n in range(8)]
    assert {row.owner for row in closed if row.closed_at} == {None}
    born = [await harness.row(f"s{n}") for n in range(8)]
    assert [row == taken for row in born] == [n == 3 for n in range(8)]
    assert {(row.status, row.owner, row.epoch) for row in born} == {("running", "A", 1)}


async def test_a_close_alone_says_why_it_was_refused(harness: Harness) -> None:
    run = await harness.held("r")
    for n in range(12):  # a store may have learnt that nobody else writes
        assert await harness.commit(run, answer(f"a#{n}")) == "applied"
        run = await harness.row("r")
    ended = event("run.completed", payload=b"1")
    stale = run._replace(epoch=run.epoch - 1)
    assert await harness.commit(stale, ended, status="completed") == "lost"
    await harness.cancel("r")
    assert await harness.commit(run, ended, status="completed") == "cancel"
    row = await harness.row("r")
    assert (row.status, row.seq) == ("running", 13)
