"""Updates: what the run says to one is kept with it; a start may bring the first message along."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.errors import RunClosed, RunConflict, RunNotFound
from holdfast.model.commands import RerunRun, UpdateRun
from holdfast.model.run import Message, Posted
from holdfast.model.writes import Replied
from holdfast.testing.conformance.exports import exported, taken
from holdfast.testing.conformance.harness import Harness, event, ids, refused


async def update(harness: Harness, id: str, run: str = "r", **fields: Any) -> bool:
    """Send an update; tell whether it is new."""
    given: dict[str, Any] = {"name": "add", "payload": b"1", "ns": "default", **fields}
    return bool(await harness.send(UpdateRun(run=run, id=id, at=harness.store.now(), **given)))


async def posted(harness: Harness, id: str, run: str = "r") -> Posted:
    """Return a message of a run that must be there, with its run."""
    found = await harness.store.message("default", run, id)
    assert found is not None
    return found


async def message(harness: Harness, id: str, run: str = "r") -> Message:
    """Return a message that must be there."""
    found = (await posted(harness, id, run)).message
    assert found is not None
    return found


async def waiting(harness: Harness, run: str = "r", after: int = 0) -> list[str]:
    """Return the ids of the messages that whoever loads the run is given."""
    return [each.id for each in (await harness.load(run, after=after)).mail]


async def test_an_update_waits_in_the_inbox_as_a_signal_does(harness: Harness) -> None:
    await harness.park(await harness.held("r"))
    at = harness.store.now()
    assert await update(harness, "u1", payload=b'"lamp"')
    found = await posted(harness, "u1")
    assert found.message == Message("u1", "update", "add", b'"lamp"', at, n=1)
    assert found.run == await harness.row("r")
    assert await waiting(harness) == ["u1"]
    assert ids((await harness.claim("B")).runs) == ["r"]


async def test_a_repeated_update_changes_nothing(harness: Harness) -> None:
    await harness.start("r")
    await update(harness, "u1")
    before = await harness.load("r")
    assert not await update(harness, "u1", payload=b"2")
    assert await harness.load("r") == before


async def test_a_message_that_is_not_there_is_none(harness: Harness) -> None:
    assert await harness.store.message("default", "nobody", "u1") is None
    run = await harness.start("r")
    assert await posted(harness, "u1") == Posted(run, None)


async def test_a_closed_run_and_an_unknown_one_refuse_updates(harness: Harness) -> None:
    await harness.closed("r")
    with refused(RunClosed):
        await update(harness, "u1")
    with refused(RunNotFound):
        await update(harness, "u1", run="nobody")


async def test_a_reply_is_kept_in_the_commit_of_its_turn(harness: Harness) -> None:
    run = await harness.held("r")
    await update(harness, "u1")
    accepted = event("update.accepted", "add/u1", payload=b"1")
    told = (Replied("u1", "accepted"),)
    assert await harness.commit(run, accepted, inbox_read=1, replies=told) == "applied"
    assert (await message(harness, "u1")).state == "accepted"
    run = await harness.row("r")
    done = event("update.completed", "add/u1", payload=b"2")
    told = (Replied("u1", "completed", b"2"),)
    assert await harness.commit(run, done, replies=told) == "applied"
    found = await message(harness, "u1")
    assert (found.state, found.reply, found.payload) == ("completed", b"2", b"1")


async def test_a_refusal_leaves_the_history_alone(harness: Harness) -> None:
    run = await harness.held("r")
    await update(harness, "u1")
    told = (Replied("u1", "rejected", b'{"type":"E","message":"no"}'),)
    assert await harness.commit(run, inbox_read=1, replies=told) == "applied"
    after = await harness.load("r")
    assert (after.run.seq, after.mail, after.run.has_mail) == (1, (), False)
    assert (await message(harness, "u1")).state == "rejected"


async def test_a_refused_turn_replies_to_nobody(harness: Harness) -> None:
    run = await harness.held("r")
    await update(harness, "u1")
    told = (Replied("u1", "rejected", b"{}"),)
    assert await harness.commit(run._replace(epoch=9), inbox_read=1, replies=told) == "lost"
    assert (await message(harness, "u1")).state == ""
    assert await waiting(harness) == ["u1"]


async def test_replies_of_many_runs_stay_apart(harness: Harness) -> None:
    names = [f"r{n}" for n in range(20)]
    held = [await harness.held(name) for name in names]
    for name in names:
        await update(harness, "u1", run=name)
    outcomes = await asyncio.gather(
        *(
            harness.commit(run, inbox_read=1, replies=(Replied("u1", "rejected", run.id.encode()),))
            for run in held
        )
    )
    assert outcomes == ["applied"] * 20
    assert [(await message(harness, "u1", run)).reply for run in names] == [
        name.encode() for name in names
    ]


async def test_what_was_read_and_not_decided_is_loaded_with_the_whole_run(harness: Harness) -> None:
    run = await harness.held("r")
    await update(harness, "u1")
    await harness.signal("s1")
    await update(harness, "u2")
    received = event("signal.received", "go/s1")
    assert await harness.commit(run, received, inbox_read=2) == "applied"
    assert await waiting(harness) == ["u1", "u2"]
    assert await waiting(harness, after=2) == ["u2"]
    assert not await update(harness, "u1")
    run = await harness.row("r")
    told = (Replied("u1", "rejected", b"{}"),)
    assert await harness.commit(run, replies=told) == "applied"
    assert await waiting(harness) == ["u2"]


async def test_a_closed_run_decides_no_more(harness: Harness) -> None:
    run = await harness.held("r")
    await update(harness, "u1")
    assert await harness.commit(run, inbox_read=1) == "applied"
    await harness.end(await harness.row("r"))
    assert await waiting(harness) == []
    assert not await update(harness, "u1")
    found = await posted(harness, "u1")
    assert found.message is not None
    assert (found.run.status, found.message.state) == ("completed", "")


async def test_an_update_that_a_rerun_takes_back_is_undecided_again(harness: Harness) -> None:
    run = await harness.held("r")
    for id in ("u1", "u2", "u3"):
        await update(harness, id)
    said = (event("update.accepted", "add/u1"), event("update.completed", "add/u1", payload=b"2"))
    told = (Replied("u1", "completed", b"2"), Replied("u2", "rejected", b"{}"))
    assert await harness.commit(run, *said, inbox_read=3, replies=told) == "applied"
    history = (await harness.load("r")).events
    command = RerunRun("default", "r", 1, history, harness.store.now())
    await harness.send(command)
    assert set(await waiting(harness)) == {"u1", "u3"}
    assert [(await message(harness, id)).state for id in ("u1", "u2", "u3")] == ["", "rejected", ""]
    assert (await message(harness, "u1")).reply is None


async def test_replies_travel_with_an_exported_run(harness: Harness) -> None:
    run = await harness.held("r")
    await update(harness, "u1")
    told = (Replied("u1", "rejected", b'{"type":"E","message":"no"}'),)
    assert await harness.commit(run, inbox_read=1, replies=told) == "applied"
    export = await exported(harness)
    await taken(harness, export)
    assert await message(harness, "u1", "copy") == await message(harness, "u1")


async def test_a_run_starts_with_its_first_message(harness: Harness) -> None:
    first = Message("s1", "signal", "go", b"7", harness.store.now())
    run = await harness.start("r", message=first)
    assert (run.inbox_seq, run.inbox_read) == (1, 0)
    loaded = await harness.load("r")
    assert (loaded.run, loaded.mail) == (run, (first._replace(n=1),))
    assert not await harness.signal("s1")
    assert await harness.signal("s2")
    [claimed] = (await harness.claim("A")).runs
    assert claimed.has_mail


async def test_a_run_born_held_has_its_first_message(harness: Harness) -> None:
    first = Message("u1", "update", "add", b"7", harness.store.now())
    run = await harness.held("r", message=first)
    assert run.has_mail
    assert await waiting(harness) == ["u1"]


async def test_a_start_that_finds_the_run_brings_no_message(harness: Harness) -> None:
    before = await harness.start("r")
    first = Message("s1", "signal", "go", b"7", harness.store.now())
    assert await harness.start("r", message=first) == before
    assert await waiting(harness) == []
    with refused(RunConflict):
        await harness.start("r", input=b"[]", message=first)
    assert await waiting(harness) == []


async def test_of_starts_at_the_same_time_one_brings_its_message(harness: Harness) -> None:
    at = harness.store.now()
    firsts = [Message(f"s{n}", "signal", "go", b"7", at) for n in range(10)]
    await asyncio.gather(*(harness.start("r", message=first) for first in firsts))
    assert (await harness.row("r")).inbox_seq == 1
    assert len(await waiting(harness)) == 1
