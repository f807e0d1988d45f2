"""Forks: a run that shares another's history up to a point; each goes its own way from there."""

from __future__ import annotations

from typing import Any

from holdfast.errors import HoldfastError, InvalidValue, RunConflict, RunNotFound, UnknownKey
from holdfast.model.commands import ForkRun, PruneRuns, RerunRun
from holdfast.model.events import Event
from holdfast.model.exports import Export
from holdfast.model.labels import Labels
from holdfast.model.run import Run
from holdfast.model.travel import Edit, edits_of
from holdfast.model.writes import Replied
from holdfast.testing.conformance.harness import Harness, answer, event, ids, refused
from holdfast.testing.conformance.updates import message, update, waiting


async def exported(harness: Harness, run: str) -> Export:
    """Return everything of a run."""
    found = await harness.store.export("default", run)
    assert found is not None, run
    return found


async def fork(harness: Harness, at: int | str | None, id: str = "f", **fields: Any) -> Run:
    """Fork the run `r`, or the one that is named `of`, as it is now."""
    origin = await exported(harness, fields.pop("of", "r"))
    given: dict[str, Any] = {"digest": repr((at, fields)).encode(), **fields}
    made: Run = await harness.send(ForkRun("default", id, origin, harness.store.now(), at, **given))
    return made


async def rerun(harness: Harness, run: str, key: str | None = None) -> None:
    """Take a run back to a step, or to its start."""
    row, events, *_ = await harness.load(run)
    at = harness.store.now()
    await harness.send(RerunRun("default", run, row.generation, events, at, key))


async def three(harness: Harness, id: str = "r") -> Run:
    """Make a completed run of three steps: events 2, 3 and 4."""
    run = await harness.held(id, labels=Labels(("vip",)), queue="near", priority=2)
    for n, key in enumerate(("a#1", "b#1", "c#1"), start=1):
        turn = answer(key, payload=str(n).encode(), asked_seq=n)
        assert await harness.commit(await harness.row(id), turn) == "applied"
    await harness.end(await harness.row(id))
    return run


async def updated(harness: Harness, id: str = "r") -> None:
    """Make a run that takes update `u1` in event 2, has a step, and ends the update in event 4."""
    run = await harness.held(id)
    await update(harness, "u1", id)
    taken = event("update.accepted", "add/u1", payload=b"1")
    told = (Replied("u1", "accepted"),)
    assert await harness.commit(run, taken, inbox_read=1, replies=told) == "applied"
    assert await harness.commit(await harness.row(id), answer(asked_seq=2)) == "applied"
    ended = event("update.completed", "add/u1", payload=b"2", asked_seq=3)
    told = (Replied("u1", "completed", b"2"),)
    assert await harness.commit(await harness.row(id), ended, replies=told) == "applied"


def keys(events: tuple[Event, ...]) -> list[str]:
    """Return events by their keys, or their kinds."""
    return [each.key or each.kind for each in events]


async def test_a_fork_shares_the_history_up_to_its_point(harness: Harness) -> None:
    origin = await three(harness)
    at = harness.clock.advance()
    row = await fork(harness, 3)
    assert (row.status, row.wake_at, row.created_at, row.closed_at) == ("pending", at, at, None)
    assert (row.seq, row.generation, row.epoch) == (4, 1, origin.epoch)
    assert (row.workflow, row.version, row.queue, row.priority) == ("w", "1", "near", 2)
    loaded = await harness.load("f")
    assert loaded.run == row == await harness.row("f")
    assert keys(loaded.events) == ["run.started", "a#1", "b#1", "run.forked"]
    assert loaded.events[:3] == (await harness.load("r")).events[:3]
    labels = await harness.store.labels("default", ["f"])
    assert labels["f"].tags == ("vip",)
    assert ids((await harness.claim("B")).runs) == ["f"]


async def test_a_fork_goes_its_own_way(harness: Harness) -> None:
    await three(harness)
    before = await exported(harness, "r")
    await fork(harness, 3)
    [run] = (await harness.claim("B")).runs
    assert await harness.commit(run, answer("c#1", b"9", asked_seq=3)) == "applied"
    await harness.end(await harness.row("f"))
    whole = await exported(harness, "f")
    assert [each.seq for each in whole.events] == [1, 2, 3, 4, 5, 6]
    assert keys(whole.events)[3:] == ["run.forked", "c#1", "run.completed"]
    assert await exported(harness, "r") == before


async def test_a_fork_is_read_from_any_position(harness: Harness) -> None:
    await three(harness)
    await fork(harness, 3)
    for after, seqs in ((0, [1, 2, 3, 4]), (1, [2, 3, 4]), (3, [4]), (4, []), (9, [])):
        assert [each.seq for each in (await harness.load("f", after=after)).events] == seqs


async def test_a_step_is_a_point_too(harness: Harness) -> None:
    await three(harness)
    assert (await fork(harness, "b#1")).seq == 4
    assert (await fork(harness, None, "g")).seq == 5, "all but the end"
    assert keys((await harness.load("g")).events)[3:] == ["c#1", "run.forked"]


async def test_what_the_body_said_in_the_last_turn_is_shared(harness: Harness) -> None:
    run = await harness.held("r")
    turn = (
        answer("a#1", asked_seq=1),
        event("note.patched", "x", asked_seq=2, payload=b"{}"),
        event("note.patched", "y", asked_seq=2, payload=b"{}"),
        answer("b#1", asked_seq=2),
    )
    await harness.commit(run, *turn)
    await fork(harness, 2)
    assert keys((await harness.load("f")).events) == ["run.started", "a#1", "x", "y", "run.forked"]


async def test_an_edited_result_stands_in_the_recorded_one_s_place(harness: Harness) -> None:
    await three(harness)
    row = await fork(harness, None, results={"a#1": b"7", "b#1": b"8"})
    assert (row.seq, row.generation) == (4, 2)
    events = (await harness.load("f")).events
    assert [(each.seq, each.payload) for each in events[1:3]] == [(2, b"7"), (3, b"8")]
    origin = (await harness.load("r")).events
    assert [each.payload for each in origin[1:3]] == [b"1", b"2"]
    assert [each.asked_seq for each in events[1:3]] == [each.asked_seq for each in origin[1:3]]


async def test_a_failure_may_be_edited_to_a_result(harness: Harness) -> None:
    run = await harness.held("r")
    await harness.commit(run, event("step.failed", "a#1", payload=b"{}", asked_seq=1))
    await fork(harness, None, results={"a#1": b"1"})
    assert (await harness.load("f")).events[1].kind == "step.completed"


async def test_another_input_begins_at_the_start(harness: Harness) -> None:
    await three(harness)
    row = await fork(harness, None, input=b'{"n":2}')
    assert (row.seq, row.generation, row.epoch) == (2, 1, 0)
    events = (await harness.load("f")).events
    assert keys(events) == ["run.started", "run.forked"]
    assert events[0].payload == b'{"n":2}'
    with refused(InvalidValue):
        await fork(harness, 3, "g", input=b"{}")


async def test_a_fork_does_not_see_what_its_origin_takes_back(harness: Harness) -> None:
    await three(harness)
    await fork(harness, 4)
    before = await exported(harness, "f")
    await rerun(harness, "r", "a#1")
    assert await exported(harness, "f") == before
    assert keys((await harness.load("f")).events) == [
        "run.started",
        "a#1",
        "b#1",
        "c#1",
        "run.forked",
    ]


async def test_a_fork_may_share_what_no_longer_counts(harness: Harness) -> None:
    await three(harness)
    await rerun(harness, "r", "b#1")
    await fork(harness, 4)
    events = (await harness.load("f")).events
    assert keys(events) == ["run.started", "a#1", "b#1", "c#1", "run.forked"]
    await fork(harness, None, "g")
    whole = (await exported(harness, "g")).events
    gone = [each.seq for each in whole if each.superseded_by is not None]
    assert gone == [3, 4, 5]
    assert all(each.superseded_by in (None, 6, 7) for each in whole)


async def test_a_fork_takes_its_own_history_back(harness: Harness) -> None:
    await three(harness)
    before = await exported(harness, "r")
    await fork(harness, 4)
    await rerun(harness, "f", "b#1")
    assert keys((await harness.load("f")).events) == [
        "run.started", "a#1", "run.forked", "run.reopened",
    ]  # fmt: skip
    whole = (await exported(harness, "f")).events
    assert [each.superseded_by for each in whole] == [None, None, 6, 6, None, None]
    assert await exported(harness, "r") == before


async def test_a_turn_of_a_fork_leaves_out_what_it_does_not_ask_for(harness: Harness) -> None:
    await three(harness)
    before = await exported(harness, "r")
    await fork(harness, 4, results={"a#1": b"7"})
    [run] = (await harness.claim("B")).runs
    turn = await harness.commit(run, answer("x#1", asked_seq=2), supersedes=(3, 4), superseded_by=5)
    assert turn == "applied"
    living = (await harness.load("f")).events
    assert keys(living) == ["run.started", "a#1", "run.forked", "x#1"]
    assert living[1].payload == b"7"
    assert await exported(harness, "r") == before


async def test_a_fork_of_a_fork(harness: Harness) -> None:
    await three(harness)
    await fork(harness, 3, results={"b#1": b"8"})
    [run] = (await harness.claim("B")).runs
    await harness.commit(run, answer("c#1", b"9", asked_seq=3))
    await fork(harness, 5, "g", of="f")
    await fork(harness, 3, "h", of="f")
    await fork(harness, 2, "i", of="f", results={"a#1": b"7"})
    assert keys((await harness.load("g")).events) == [
        "run.started", "a#1", "b#1", "run.forked", "c#1", "run.forked",
    ]  # fmt: skip
    expected = {"g": [b"1", b"8", b"9"], "h": [b"1", b"8"], "i": [b"7"]}
    for each, payloads in expected.items():
        events = (await harness.load(each)).events
        assert [e.payload for e in events if e.kind == "step.completed"] == payloads
        whole = (await exported(harness, each)).events
        assert [e.seq for e in whole] == [*range(1, len(whole) + 1)]


async def test_a_state_that_is_edited_goes_with_the_fork_and_with_its_forks(
    harness: Harness,
) -> None:
    await three(harness)
    one = Edit(3, "b.next#1", "b:2", b'{"set": {"n": 1.5, "text": "\\u00fc"}}')
    row = await fork(harness, 3, states=(one,))
    assert (row.seq, row.generation) == (4, 2)
    assert edits_of((await harness.load("f")).events) == (one,)
    two = Edit(4, "c.next#1", "c:3", b"{}")
    [run] = (await harness.claim("B")).runs
    await harness.commit(run, answer("c#1", b"9", asked_seq=3))
    await fork(harness, 5, "g", of="f", states=(two,))
    await fork(harness, 3, "h", of="f")
    await fork(harness, 2, "i", of="f")
    await fork(harness, 3, "j", of="f", states=(one._replace(change=b"{}"),))
    await fork(harness, 5, "k", of="f", results={"b#1": b"7"})
    found = {each: edits_of((await harness.load(each)).events) for each in "ghijk"}
    assert found == {
        "g": (one, two), "h": (one,), "i": (), "j": (one._replace(change=b"{}"),), "k": (),
    }  # fmt: skip


async def test_messages_of_the_shared_part_count_as_read(harness: Harness) -> None:
    await harness.held("r")
    await harness.signal("m1")
    await harness.signal("m2")
    await harness.cancel("r", "c1")
    turn = (
        event("cancel.requested", "c1"),
        event("signal.received", "go/m1"),
        event("signal.received", "go/m2"),
    )
    assert await harness.commit(await harness.row("r"), *turn, inbox_read=3) == "applied"
    row = await fork(harness, 3)
    assert (row.inbox_seq, row.inbox_read, row.cancel) == (2, 2, 2)
    assert not await harness.signal("m1", "f"), "it has it"
    assert await harness.signal("m2", "f")
    assert [each.id for each in (await harness.load("f")).mail] == ["m2"]


async def test_an_update_is_told_what_the_fork_has_of_it(harness: Harness) -> None:
    await updated(harness)
    await fork(harness, 2)
    await fork(harness, 4, "g")
    under_way, ended = await message(harness, "u1", "f"), await message(harness, "u1", "g")
    assert (under_way.state, under_way.reply) == ("accepted", None)
    assert (ended.state, ended.reply) == ("completed", b"2")


async def test_an_update_that_was_taken_back_is_ended_in_a_fork_of_before(harness: Harness) -> None:
    await updated(harness)
    await rerun(harness, "r")
    row = await fork(harness, 4)
    assert (row.inbox_seq, row.inbox_read) == (1, 1)
    found = await message(harness, "u1", "f")
    assert (found.state, found.reply, found.payload) == ("completed", b"2", b"1")
    assert await waiting(harness, "f") == [], "it would be carried out a second time"
    assert await waiting(harness, "r") == ["u1"]


async def test_a_fork_of_a_fork_has_the_messages_of_all_it_shares(harness: Harness) -> None:
    await updated(harness)
    await rerun(harness, "r")
    await fork(harness, None)
    assert await harness.signal("u1", "f"), "nothing that counts there has this id"
    await fork(harness, 4, "g", of="f")
    found = await message(harness, "u1", "g")
    assert (found.kind, found.name, found.state, found.reply) == (
        "update",
        "add",
        "completed",
        b"2",
    )
    assert not await update(harness, "u1", "g"), "it has it"
    await rerun(harness, "g")
    assert await waiting(harness, "g") == ["u1"]


async def test_the_same_fork_again_is_the_same_run(harness: Harness) -> None:
    await three(harness)
    first = await fork(harness, 3)
    harness.clock.advance()
    assert await fork(harness, 3) == first
    with refused(RunConflict):
        await fork(harness, 2)
    with refused(RunConflict):
        await fork(harness, 3, "r")


async def test_a_fork_of_nothing_is_refused(harness: Harness) -> None:
    await three(harness)
    origin = await exported(harness, "r")
    wrong: dict[int | str, type[HoldfastError]]
    wrong = {9: InvalidValue, 0: InvalidValue, "x#1": UnknownKey}
    for point, error in wrong.items():
        with refused(error):
            await fork(harness, point)
    with refused(UnknownKey):
        await fork(harness, 2, results={"c#1": b"1"})
    await harness.send(PruneRuns("default", harness.clock.advance() + 1))
    with refused(RunNotFound):
        await harness.send(ForkRun("default", "f", origin, harness.store.now(), 3))
    await three(harness)
    with refused(RunNotFound):
        await harness.send(ForkRun("default", "f", origin, harness.store.now(), 3))
    assert await harness.store.load("default", "f") is None


async def test_forgetting_an_origin_leaves_its_forks_whole(harness: Harness) -> None:
    await three(harness)
    await fork(harness, 3, results={"a#1": b"7"})
    await fork(harness, 4, "g", of="f")
    before = [await exported(harness, each) for each in ("f", "g")]
    harness.clock.advance()
    assert await harness.send(PruneRuns("default", harness.store.now())) == 1
    assert await harness.store.load("default", "r") is None
    assert [await exported(harness, each) for each in ("f", "g")] == before
    assert (await harness.load("g")).events[1].payload == b"7"


async def test_forgetting_a_fork_leaves_its_origin_and_its_forks_whole(harness: Harness) -> None:
    await three(harness)
    await fork(harness, 3, results={"a#1": b"7"})
    await fork(harness, 4, "g", of="f")
    before = await exported(harness, "g")
    [*_, run] = (await harness.claim("B", limit=1)).runs
    assert run.id == "f"
    harness.clock.advance()
    await harness.end(run)
    now = harness.clock.advance()
    assert await harness.send(PruneRuns("default", now)) == 2
    assert await exported(harness, "g") == before
    assert keys((await harness.load("g")).events) == [
        "run.started", "a#1", "b#1", "run.forked", "run.forked",
    ]  # fmt: skip


async def test_the_id_of_a_forgotten_fork_is_free(harness: Harness) -> None:
    await three(harness)
    await fork(harness, 3)
    [run] = (await harness.claim("B")).runs
    await harness.end(run)
    await harness.send(PruneRuns("default", harness.clock.advance() + 1))
    await harness.held("f")
    assert keys((await harness.load("f")).events) == ["run.started"]
    assert keys((await exported(harness, "f")).events) == ["run.started"]


async def test_a_fork_has_as_long_again(harness: Harness) -> None:
    await harness.held("r", timeout=1_000)
    at = harness.clock.advance()
    assert (await fork(harness, 1)).deadline == at + 1_000
    later = harness.clock.advance()
    assert (await fork(harness, 1, "g", of="f")).deadline == later + 1_000


async def test_a_fork_of_a_fork_may_go_back_before_that_one_was_made(harness: Harness) -> None:
    await three(harness)
    await rerun(harness, "r", "b#1")
    await fork(harness, None)
    await fork(harness, 4, "g", of="f")
    expected = ["run.started", "a#1", "b#1", "c#1", "run.forked"]
    assert keys((await harness.load("g")).events) == expected
    assert keys((await harness.load("f")).events) == [
        "run.started",
        "a#1",
        "run.reopened",
        "run.forked",
    ]


async def test_edited_results_are_read_from_any_position(harness: Harness) -> None:
    await three(harness)
    await fork(harness, 4, results={"a#1": b"7"})
    for after in range(5):
        events = (await harness.load("f", after=after)).events
        assert [each.seq for each in events] == [*range(after + 1, 6)]
