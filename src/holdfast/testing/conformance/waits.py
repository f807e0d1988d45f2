"""What runs wait for from outside: open until the first answer, and refused from then on."""

from __future__ import annotations

from typing import Any

from holdfast.errors import RunClosed, RunNotFound, StoreError
from holdfast.kernel.dispatch import decide
from holdfast.model.commands import AnswerRun
from holdfast.model.run import Run
from holdfast.model.waits import Wait, WaitFilter, Waits
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.batches import bad_turn
from holdfast.testing.conformance.harness import LEASE, Harness, answer, event, refused
from holdfast.testing.conformance.retention import prune


def question(run: Run, key: str = "ask#1", other: str = "", **fields: Any) -> Wait:
    """Return an open question of the held run; `other` stands for another secret."""
    asked = b'{"question":"ok?","details":null,"schema":{}}'
    made = Wait(
        run.ns, run.id, key, "question", run.generation, 0, f"secret {key}{other}", "open",
        run.updated_at, None, ("ada",), asked,
    )  # fmt: skip
    return made._replace(**fields)


async def asked(harness: Harness, run: Run, *waits: Wait, **fields: Any) -> Run:
    """Commit a turn that opens these; return the row."""
    outcome = await harness.commit(run, answer(), waits=Waits(waits), **fields)
    assert outcome == "applied", outcome
    return await harness.row(run.id, run.ns)


def answering(harness: Harness, wait: Wait, payload: bytes = b"true", by: str = "") -> AnswerRun:
    """Return an answer to the open row."""
    at = harness.store.now()
    return AnswerRun(wait.ns, wait.run, wait.key, wait.secret, payload, at, by)


async def rows(harness: Harness, run: str = "r", ns: str = "default") -> list[Wait]:
    """Return all that a run waits for, or has waited for."""
    return await harness.store.waits(WaitFilter(ns, run))


async def test_a_turn_opens_what_it_asks_for(harness: Harness) -> None:
    run = await harness.held("r")
    first = question(run, to=("ada", "bob é"), expires_at=7, asked=b"\x00\xff")
    second = question(run, "b/ask#2", kind="step", attempt=3, to=())
    row = await asked(harness, run, first, second)
    assert (row.seq, row.status, row.owner) == (2, "running", "A")
    assert await rows(harness) == [first, second]
    assert await harness.store.waits(WaitFilter("default", "r", "ask#1")) == [first]
    assert await harness.store.waits(WaitFilter("default", "r", kind="step")) == [second]
    assert await rows(harness, "other") == []


async def test_a_turn_without_events_may_ask_too(harness: Harness) -> None:
    run = await harness.held("r")
    assert await harness.commit(run, waits=Waits((question(run),))) == "applied"
    assert await rows(harness) == [question(run)]
    assert (await harness.row("r")).seq == 1


async def test_a_refused_turn_opens_and_ends_nothing(harness: Harness) -> None:
    run = await asked(harness, await harness.held("r"), question(await harness.row("r")))
    [before] = await rows(harness)
    await harness.cancel()
    changed = Waits((question(run, "ask#2"),), (("ask#1", "gone"),))
    assert await harness.commit(run, answer("b#1"), waits=changed) == "cancel"
    assert await rows(harness) == [before]


async def test_a_batch_that_fails_opens_nothing(harness: Harness) -> None:
    run, other = await harness.held("r"), await harness.held("other")
    turn = decide(harness.turn(run, answer(), waits=Waits((question(run),))))
    with refused(StoreError):
        await harness.store.write([turn, bad_turn(harness, other)])
    assert await rows(harness) == []


async def test_what_is_asked_anew_takes_the_place_of_the_former(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run, question(run))
    again = question(run, other="new", to=("ada", "boss"), expires_at=9)
    assert await harness.commit(run, answer("b#1"), waits=Waits((again,))) == "applied"
    assert await rows(harness) == [again]
    assert not await harness.send(answering(harness, question(run)))
    assert await harness.send(answering(harness, again))


async def test_the_first_answer_wins(harness: Harness) -> None:
    run = await harness.held("r")
    run = await harness.park(await asked(harness, run, question(run)))
    at = harness.clock.advance(SECOND)
    assert await harness.send(answering(harness, question(run), b'"yes"', "ada"))
    [kept] = await rows(harness)
    assert (kept.state, kept.by, kept.answer, kept.settled_at) == ("answered", "ada", b'"yes"', at)
    loaded = await harness.load("r")
    assert [(m.kind, m.name, m.payload) for m in loaded.mail] == [("answer", "ask#1", None)]
    assert (loaded.run.status, loaded.run.wake_at) == ("waiting", at)
    harness.clock.advance(SECOND)
    assert not await harness.send(answering(harness, question(run), b'"no"', "bob"))
    assert await rows(harness) == [kept]
    assert (await harness.row("r")).inbox_seq == 1


async def test_two_answers_in_one_batch_are_one(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run, question(run))
    commands = [answering(harness, question(run), b"1", "a"), answering(harness, question(run))]
    assert await harness.send_all(commands) == [True, False]
    assert (await rows(harness))[0].by == "a"


async def test_an_answer_needs_the_secret(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run, question(run))
    assert not await harness.send(answering(harness, question(run, other="guess")))
    assert not await harness.send(answering(harness, question(run, "ask#2")))
    assert (await harness.row("r")).inbox_seq == 0


async def test_what_is_over_takes_no_answer(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run, question(run), question(run, "ask#2"))
    at = harness.clock.advance(SECOND)
    over = Waits(overs=(("ask#1", "nobody came"),))
    assert await harness.commit(run, answer("b#1"), waits=over) == "applied"
    ended, still = await rows(harness)
    assert (ended.state, ended.why, ended.settled_at) == ("over", "nobody came", at)
    assert still.state == "open"
    assert not await harness.send(answering(harness, question(run)))
    assert (await harness.row("r")).inbox_seq == 0


async def test_an_answer_is_not_undone_by_a_turn_that_ends_its_question(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run, question(run))
    assert await harness.send(answering(harness, question(run)))
    over = Waits(overs=(("ask#1", "too late"),))
    guarded = {"waits": over, "inbox_seq": 0}
    assert await harness.commit(run, answer("b#1"), **guarded) == "mail"
    [kept] = await rows(harness)
    assert kept.state == "answered"
    assert await harness.commit(run, answer("b#1"), waits=over) == "applied"
    assert await rows(harness) == [kept]


async def test_a_closed_run_takes_no_answer(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run, question(run))
    end = {"status": "completed", "waits": Waits(overs=(("ask#1", "the run has ended"),))}
    assert await harness.commit(run, event("run.completed"), **end) == "applied"
    with refused(RunClosed):
        await harness.send(answering(harness, question(run)))
    with refused(RunNotFound):
        await harness.send(answering(harness, question(run._replace(id="nobody"))))


async def test_a_terminated_run_waits_for_nothing(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run, question(run))
    await harness.move("terminate")
    [kept] = await rows(harness)
    assert (kept.state, kept.why) == ("over", "the run was terminated")
    assert await harness.store.waits(WaitFilter("default")) == []


async def test_a_paused_run_takes_answers(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run, question(run))
    assert await harness.commit(run, event("run.paused"), status="paused") == "applied"
    assert await harness.send(answering(harness, question(run)))
    assert (await harness.row("r")).status == "paused"


async def test_what_is_asked_survives_its_worker(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run, question(run))
    harness.clock.advance(LEASE + 1)
    await harness.reap("A")
    await harness.claim("B")
    assert await rows(harness) == [question(run)]


async def test_what_is_open_is_listed_the_oldest_first_in_pages(harness: Harness) -> None:
    made: list[Wait] = []
    for name, to in (("b", ("ada",)), ("a", ("bob", "ada")), ("c", ("bo",))):
        run = await harness.held(name)
        made.append(question(run, to=to))
        await asked(harness, run, made[-1])
    for each in made:
        assert each.asked_at == made[0].asked_at
    b, a, c = made
    store, every = harness.store, WaitFilter("default")
    assert await store.waits(every) == [a, b, c]
    assert await store.waits(every._replace(to="ada")) == [a, b]
    assert await store.waits(every._replace(to="bo")) == [c]
    assert await store.waits(every._replace(kind="step")) == []
    page = every._replace(limit=1)
    assert await store.waits(page) == [a]
    page = page._replace(after_at=a.asked_at, after_run=a.run, after_key=a.key)
    assert await store.waits(page) == [b]
    await harness.send(answering(harness, a))
    assert await store.waits(every) == [b, c]


async def test_namespaces_do_not_answer_for_each_other(harness: Harness) -> None:
    here, there = await harness.held("r"), await harness.held("r", ns="other")
    await asked(harness, here, question(here))
    await asked(harness, there, question(there))
    assert await harness.send(answering(harness, question(here)))
    assert await rows(harness, ns="other") == [question(there)]
    assert await harness.store.waits(WaitFilter("default")) == []


async def test_what_was_asked_is_pruned_with_the_run(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run, question(run))
    await harness.move("terminate")
    await prune(harness, harness.clock.advance())
    await harness.start("r", input=b"other")
    assert await rows(harness) == []
