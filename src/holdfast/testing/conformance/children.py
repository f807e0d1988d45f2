"""Parents and children: what a turn does to other runs, what follows when one of them closes."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from holdfast.kernel import dispatch
from holdfast.model.family import Link, ParentClose, descent, report_of, start_noted
from holdfast.model.run import Message, Run
from holdfast.model.status import RunStatus
from holdfast.model.writes import Create, Depart, Put, Send
from holdfast.testing.conformance.harness import Harness, answer, event, ids
from holdfast.testing.conformance.retention import prune

TIE = Link("p", "ship#1", 1)


def child(harness: Harness, id: str = "p/ship#1", link: Link = TIE, **fields: Any) -> Create:
    """Return what creates a child."""
    command = harness.starting(id, link=link, depth=1, **fields)
    return cast("Create", dispatch.decide(command))


async def start_children(harness: Harness, parent: Run, *creates: Create) -> Run:
    """Commit the turn in which a held run starts children."""
    notes = [
        event("child.started", each.link.key, payload=start_noted(each.id, "w", each.link.policy))
        for each in creates
        if each.link
    ]
    assert await harness.commit(parent, *notes, sends=creates) == "applied"
    return await harness.row(parent.id, parent.ns)


async def family(harness: Harness, policy: ParentClose = "terminate") -> tuple[Run, Run]:
    """Return a held run and its held child."""
    parent = await harness.held("p")
    tie = TIE._replace(policy=policy)
    parent = await start_children(harness, parent, child(harness, link=tie, workflow="c"))
    [taken] = (await harness.claim("A", workflows=("c",))).runs
    return parent, taken


async def close(
    harness: Harness, run: Run, status: RunStatus = "completed", payload: bytes = b'"done"'
) -> str:
    """Close a held run as a worker does that knows of its family."""
    closing = event(f"run.{status}", payload=payload)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    turn = harness.turn(run, closing, status=status)
    departs = Depart(run.ns, run.id, run.generation, turn.events[-1])
    return str(await harness.send(turn._replace(sends=(departs,))))


async def mail(harness: Harness, run: str = "p", ns: str = "default") -> list[Message]:
    """Return what a run has not read."""
    return [*(await harness.load(run, ns)).mail]


async def test_a_child_is_created_in_the_commit_of_its_parent(harness: Harness) -> None:
    parent = await start_children(harness, await harness.held("p"), child(harness))
    loaded = await harness.load("p/ship#1")
    assert (loaded.run.status, loaded.run.workflow) == ("pending", "w")
    assert loaded.events[0].key == descent(1, "p")
    assert parent.seq == 2
    assert "p/ship#1" in ids((await harness.claim("B")).runs)


async def test_a_refused_turn_creates_no_child(harness: Harness) -> None:
    parent = await harness.held("p")
    note = event("child.started", "ship#1")
    assert await harness.commit(parent._replace(seq=7), note, sends=(child(harness),)) == "moved"
    assert await harness.store.load("default", "p/ship#1") is None


async def test_a_turn_may_create_many_children(harness: Harness) -> None:
    parent = await harness.held("p")
    ties = [TIE._replace(key=f"ship#{n}") for n in range(50)]
    creates = [child(harness, f"p/{tie.key}", tie) for tie in ties]
    await start_children(harness, parent, *creates)
    assert len((await harness.claim("B")).runs) == 50


async def test_a_turn_is_refused_whose_child_is_other_work(harness: Harness) -> None:
    parent = await harness.held("p")
    await harness.start("taken")
    other: list[dict[str, Any]] = [{}, {"workflow": "other"}, {"input": b"1"}]
    for fields in other:
        wanted = child(harness, "taken", **fields)
        assert await harness.commit(parent, answer(), sends=(wanted,)) == "taken"
    assert await harness.row("p") == parent
    assert await harness.kinds("p") == ["run.started"]


async def test_a_child_of_another_parent_is_other_work(harness: Harness) -> None:
    await start_children(harness, await harness.held("p"), child(harness, "taken"))
    other = await harness.held("q")
    wanted = child(harness, "taken", TIE._replace(parent="q"))
    assert await harness.commit(other, answer(), sends=(wanted,)) == "taken"


async def test_a_child_that_is_asked_for_again_is_the_same(harness: Harness) -> None:
    parent = await start_children(harness, await harness.held("p"), child(harness))
    before = await harness.row("p/ship#1")
    again = child(harness, link=TIE._replace(generation=2))
    assert await harness.commit(parent, answer(), sends=(again,)) == "applied"
    assert await harness.row("p/ship#1") == before
    assert await mail(harness) == []


async def test_the_end_of_a_child_is_told_to_whom_asks_again(harness: Harness) -> None:
    parent, taken = await family(harness)
    assert await close(harness, taken) == "applied"
    parent = await harness.row("p")
    again = child(harness, link=TIE._replace(generation=2), workflow="c")
    assert await harness.commit(parent, answer(), sends=(again,)) == "applied"
    [first, second] = await mail(harness)
    assert first.payload == second.payload
    assert first.id != second.id


async def test_the_end_of_a_child_is_told_to_its_parent(harness: Harness) -> None:
    parent, taken = await family(harness)
    await harness.park(parent)
    at = harness.clock.advance()
    assert await close(harness, taken) == "applied"
    [message] = await mail(harness)
    assert (message.kind, message.name) == ("child", "ship#1")
    assert report_of(message.payload) == ("completed", b'"done"')
    row = await harness.row("p")
    assert (row.status, row.wake_at, row.inbox_seq) == ("waiting", at, 1)


async def test_a_refused_close_tells_nobody(harness: Harness) -> None:
    _, taken = await family(harness)
    assert await close(harness, taken._replace(epoch=9)) == "lost"
    assert await mail(harness) == []


async def test_one_end_is_told_once(harness: Harness) -> None:
    _, taken = await family(harness)
    closing = event("run.completed", payload=b"1")
    turn = harness.turn(taken, closing, status="completed")
    departs = Depart("default", taken.id, 1, turn.events[-1])
    assert await harness.send(turn._replace(sends=(departs, departs))) == "applied"
    assert len(await mail(harness)) == 1


async def test_a_second_end_of_a_child_is_another_message(harness: Harness) -> None:
    _, taken = await family(harness)
    assert await close(harness, taken, "failed", b'{"type":"E","message":"m"}') == "applied"
    await harness.retry(taken.id)
    [again] = (await harness.claim("A", workflows=("c",))).runs
    assert await close(harness, again) == "applied"
    statuses = [report_of(each.payload).status for each in await mail(harness)]
    assert statuses == ["failed", "completed"]


async def test_a_terminated_child_tells_its_parent(harness: Harness) -> None:
    _, taken = await family(harness)
    await harness.move("terminate", taken.id)
    [message] = await mail(harness)
    status, payload = report_of(message.payload)
    assert (status, b"tired" in (payload or b"")) == ("terminated", True)


async def test_a_closed_parent_is_told_nothing(harness: Harness) -> None:
    parent, taken = await family(harness, "abandon")
    assert await close(harness, parent) == "applied"
    before = await harness.row("p")
    assert await close(harness, taken) == "applied"
    assert await harness.row("p") == before
    assert await mail(harness) == []


async def test_an_abandoned_child_goes_on(harness: Harness) -> None:
    parent, taken = await family(harness, "abandon")
    assert await close(harness, parent) == "applied"
    assert await harness.row(taken.id) == taken
    assert await harness.commit(taken, answer()) == "applied"


async def test_a_child_is_terminated_with_its_parent(harness: Harness) -> None:
    parent, taken = await family(harness)
    assert await close(harness, parent) == "applied"
    row = await harness.row(taken.id)
    assert (row.status, row.owner) == ("terminated", None)
    assert row.reason == "its parent p has closed"
    assert await harness.commit(taken, answer()) == "lost"
    assert (await harness.kinds(taken.id))[-1] == "run.terminated"


async def test_a_child_is_cancelled_with_its_parent(harness: Harness) -> None:
    parent, taken = await family(harness, "cancel")
    assert await close(harness, parent) == "applied"
    row = await harness.row(taken.id)
    assert (row.status, row.cancel) == ("running", 1)
    [message] = await mail(harness, taken.id)
    assert message.kind == "cancel"


async def test_terminating_a_parent_treats_its_children_too(harness: Harness) -> None:
    for policy, status in (("terminate", "terminated"), ("cancel", "running")):
        tie = Link(policy, "ship#1", 1, policy)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        parent = await harness.held(policy)
        await start_children(harness, parent, child(harness, f"{policy}/c", tie, workflow="c"))
        await harness.claim("A", workflows=("c",))
        await harness.move("terminate", policy)
        assert (await harness.row(f"{policy}/c")).status == status


async def test_children_of_children_end_with_them(harness: Harness) -> None:
    _, taken = await family(harness)
    below = child(harness, "p/ship#1/c", Link(taken.id, "c", 1))
    alone = child(harness, "p/ship#1/d", Link(taken.id, "d", 1, "abandon"))
    await start_children(harness, taken, below, alone)
    await harness.move("terminate", "p")
    statuses = [(await harness.row(id)).status for id in (taken.id, below.id, alone.id)]
    assert statuses == ["terminated", "terminated", "pending"]


async def test_closed_children_stay_as_they_are(harness: Harness) -> None:
    parent, taken = await family(harness)
    assert await close(harness, taken) == "applied"
    before = await harness.row(taken.id)
    assert await close(harness, await harness.row(parent.id)) == "applied"
    assert await harness.row(taken.id) == before


async def test_a_turn_sends_messages_once(harness: Harness) -> None:
    parent, taken = await family(harness)
    signal = Put("default", taken.id, Message("p/1/signal#1", "signal", "go", b"1", 1))
    assert await harness.commit(parent, answer(), sends=(signal, signal)) == "applied"
    parent = await harness.row("p")
    assert await harness.commit(parent, answer("b#1"), sends=(signal,)) == "applied"
    [message] = await mail(harness, taken.id)
    assert (message.kind, message.name, message.payload) == ("signal", "go", b"1")


async def test_a_turn_without_events_may_send(harness: Harness) -> None:
    parent, taken = await family(harness)
    signal = Put("default", taken.id, Message("p/1/signal#1", "signal", "go", b"1", 1))
    assert await harness.commit(parent, sends=(signal,)) == "applied"
    assert len(await mail(harness, taken.id)) == 1
    assert (await harness.row("p")).seq == parent.seq


async def test_families_stay_in_their_namespace(harness: Harness) -> None:
    parent, taken = await family(harness)
    away = await harness.start(taken.id, ns="other")
    assert await close(harness, parent) == "applied"
    assert await harness.row(away.id, "other") == away


async def test_children_that_end_together_are_all_told(harness: Harness) -> None:
    parent = await harness.held("p")
    ties = [TIE._replace(key=f"ship#{n}") for n in range(30)]
    creates = [child(harness, f"p/{tie.key}", tie, workflow="c") for tie in ties]
    parent = await start_children(harness, parent, *creates)
    await harness.park(parent)
    taken = (await harness.claim("A", workflows=("c",))).runs
    ended = await asyncio.gather(*(close(harness, run) for run in taken))
    assert ended == ["applied"] * 30
    told = await mail(harness)
    assert sorted(each.name for each in told) == sorted(tie.key for tie in ties)
    assert [each.n for each in told] == list(range(1, 31))


async def test_parent_and_child_may_close_at_once(harness: Harness) -> None:
    for n in range(20):
        parent = await harness.held(f"p{n}")
        tie = Link(parent.id, "c", 1)
        parent = await start_children(harness, parent, child(harness, f"a{n}", tie, workflow="c"))
        [taken] = (await harness.claim("A", workflows=("c",))).runs
        ended = await asyncio.gather(close(harness, taken), close(harness, parent))
        assert ended[1] == "applied"
        assert ended[0] in ("applied", "lost")
        assert (await harness.row(taken.id)).status in ("completed", "terminated")


async def test_listeners_hear_of_all_that_a_turn_reaches(harness: Harness) -> None:
    heard: list[tuple[str, str]] = []
    parent = await harness.held("p")
    stop = harness.store.listen(lambda told: heard.extend((each.run, each.what) for each in told))
    await start_children(harness, parent, child(harness, workflow="c"))
    assert ("p/ship#1", "ready") in heard
    [taken] = (await harness.claim("A", workflows=("c",))).runs
    assert await close(harness, taken) == "applied"
    assert ("p", "mail") in heard
    await harness.move("terminate", "p")
    stop()


async def test_a_forgotten_child_leaves_no_link(harness: Harness) -> None:
    parent, taken = await family(harness)
    assert await close(harness, taken) == "applied"
    later = harness.clock.advance(10)
    await prune(harness, later)
    again = child(harness, workflow="c")
    parent = await harness.row(parent.id)
    sends: tuple[Send, ...] = (again,)
    assert await harness.commit(parent, answer(), sends=sends) == "applied"
    assert (await harness.row(taken.id)).status == "pending"


async def test_a_child_outlives_a_forgotten_parent(harness: Harness) -> None:
    parent, taken = await family(harness, "abandon")
    assert await close(harness, parent) == "applied"
    assert await prune(harness, harness.clock.advance()) == 1
    assert await harness.commit(taken, answer()) == "applied"
    assert await close(harness, await harness.row(taken.id)) == "applied"
    assert (await harness.row(taken.id)).status == "completed"


async def test_one_refused_turn_does_not_hold_up_the_others(harness: Harness) -> None:
    parent = await harness.held("p")
    ties = [TIE._replace(key=f"ship#{n}") for n in range(10)]
    creates = [child(harness, f"p/{tie.key}", tie, workflow="c") for tie in ties]
    await start_children(harness, parent, *creates)
    taken = (await harness.claim("A", workflows=("c",))).runs
    late = [run._replace(epoch=9) if n == 4 else run for n, run in enumerate(taken)]
    ended = await asyncio.gather(*(close(harness, run) for run in late))
    assert ended == ["lost" if n == 4 else "applied" for n in range(10)]
    assert len(await mail(harness)) == 9
