"""Jobs: written with the turn that asks, taken by one, handed in by nobody else."""

from __future__ import annotations

from typing import Any

from holdfast.model.annotations import Annotations, LogFilter, LogLine, Progress
from holdfast.model.commands import EndJob, ReportJob, RetireWorker
from holdfast.model.jobs import ClaimedJobs, Job, JobClaim, JobFilter, JobRef, Took
from holdfast.model.run import Run
from holdfast.model.waits import Asked, Wait, WaitFilter, Waits
from holdfast.testing.conformance.harness import LEASE, Harness, answer, event
from holdfast.testing.conformance.retention import prune

SECOND = 1_000_000
ASKED = Asked("the outcome of a step", None, {}).encoded()


def wait(run: Run, key: str = "work#1", other: str = "", attempt: int = 1) -> Wait:
    return Wait(
        run.ns, run.id, key, "job", run.generation, attempt, f"secret{other} of {key}", "open",
        run.created_at, None, (), ASKED,
    )  # fmt: skip


def job(run: Run, key: str = "work#1", other: str = "", **fields: Any) -> Job:
    made = Job(
        run.ns, run.id, key, run.generation, 1, f"secret{other} of {key}", "work", "default", 3,
        b"[1]", b"{}", run.created_at, run.created_at,
    )  # fmt: skip
    return made._replace(**fields)


async def asked(harness: Harness, run: Run, *jobs: Job) -> Run:
    """Commit a turn that asks for jobs; the run is held by A, and stays so."""
    made = jobs or (job(run),)
    opens = tuple(wait(run, each.key)._replace(secret=each.secret) for each in made)
    waits = Waits(opens, jobs=made)
    assert await harness.commit(run, answer("a#1"), waits=waits) == "applied"
    return await harness.row(run.id, run.ns)


async def claim(harness: Harness, worker: str = "J", **fields: Any) -> ClaimedJobs:
    made = JobClaim("default", worker, ("work",), 10, LEASE)
    return await harness.store.jobs.claim(made._replace(**fields))


async def taken(harness: Harness, worker: str = "J") -> Job:
    [found] = (await claim(harness, worker)).jobs
    return found


def ending(harness: Harness, held: Job, outcome: bytes | None = b"7", **fields: Any) -> EndJob:
    ref = JobRef(held.key, held.owner, held.epoch)
    told, at = Took(5).encoded(), harness.store.now()
    command = EndJob(held.ns, held.run, ref, held.secret, outcome, told, at, held.owner or "")
    return command._replace(**fields)


async def jobs_of(harness: Harness, ns: str = "default") -> list[Job]:
    return await harness.store.jobs.find(JobFilter(ns))


async def test_a_job_is_written_with_the_turn_that_asks(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    assert await jobs_of(harness) == [job(run)]


async def test_a_refused_turn_writes_no_job(harness: Harness) -> None:
    run = await harness.held("r")
    turn = {"waits": Waits((wait(run),), jobs=(job(run),))}
    stale = run._replace(epoch=run.epoch + 1)
    assert await harness.commit(stale, answer("a#1"), **turn) == "lost"
    assert await jobs_of(harness) == []


async def test_a_job_is_taken_by_one(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    found = await claim(harness, "J")
    [held] = found.jobs
    now = harness.store.now()
    assert held == job(run, owner="J", epoch=1, begun_at=now)
    assert found.held == (held,)
    assert found.is_any
    other = await claim(harness, "K")
    assert (other.jobs, other.held) == ((), ())
    assert (await claim(harness, "J")).held == (held,)


async def test_a_claim_renews_the_lease_of_who_takes(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    await taken(harness)
    harness.clock.advance(LEASE - 1)
    assert ("J", False) not in (await claim(harness, "K")).dead
    harness.clock.advance(2)
    assert ("J", False) in (await claim(harness, "K")).dead


async def test_jobs_go_by_priority_and_then_by_time(harness: Harness) -> None:
    run = await harness.held("r")
    late, now = run.created_at + 5, run.created_at
    made = (
        job(run, "work#1", wake_at=late),
        job(run, "work#2", wake_at=now),
        job(run, "work#3", priority=1, wake_at=late),
        job(run, "work#4", queue="gpu", wake_at=now + 1),
    )
    await asked(harness, run, *made)
    harness.clock.advance(SECOND)
    found = await claim(harness, limit=3)
    assert [each.key for each in found.jobs] == ["work#3", "work#2", "work#4"]
    assert [each.key for each in (await claim(harness)).jobs] == ["work#1"]


async def test_a_job_waits_for_its_time(harness: Harness) -> None:
    run = await harness.held("r")
    due = harness.store.now() + SECOND
    await asked(harness, run, job(run, wake_at=due))
    found = await claim(harness)
    assert (found.jobs, found.next_wake_at) == ((), due)
    harness.clock.advance(SECOND)
    assert (await taken(harness)).wake_at == due


async def test_a_claim_tells_when_the_next_job_of_its_queues_is_due(harness: Harness) -> None:
    run = await harness.held("r")
    now = harness.store.now()
    await asked(
        harness, run, job(run, "else#1", step="else", wake_at=now + SECOND),
        job(run, "work#1", queue="gpu", wake_at=now + 2 * SECOND), job(run, "work#2", wake_at=now),
    )  # fmt: skip
    assert (await claim(harness)).next_wake_at == now + SECOND, "whoever can do it"
    assert (await claim(harness, queues=("gpu",))).next_wake_at == now + 2 * SECOND
    assert (await claim(harness, queues=("other",))).next_wake_at is None


async def test_who_takes_runs_is_not_told_of_workers_that_hold_jobs_only(harness: Harness) -> None:
    await asked(harness, await harness.held("r", worker="A"))
    await taken(harness, "J")
    harness.clock.advance(LEASE + 1)
    assert [name for name, _ in (await harness.claim("B", limit=0)).dead] == ["A"]
    assert [name for name, _ in (await claim(harness, "K")).dead] == ["J"]


async def test_a_worker_takes_jobs_of_its_queues_and_steps_only(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run, job(run, "work#1", queue="gpu"), job(run, "else#1", step="else"))
    assert (await claim(harness, queues=("default",))).jobs == ()
    assert (await claim(harness, steps=("other",))).jobs == ()
    assert [each.key for each in (await claim(harness, queues=("gpu",))).jobs] == ["work#1"]
    assert [each.key for each in (await claim(harness, steps=("else",))).jobs] == ["else#1"]


async def test_jobs_of_a_paused_run_wait(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run)
    assert await harness.commit(run, event("run.paused"), status="paused") == "applied"
    assert (await claim(harness)).jobs == ()
    await harness.move("resume")
    assert (await taken(harness)).key == "work#1"


async def test_an_outcome_is_kept_and_told_and_the_job_is_gone(harness: Harness) -> None:
    run = await harness.held("r")
    run = await harness.park(await asked(harness, run))
    held = await taken(harness)
    at = harness.clock.advance(SECOND)
    assert await harness.send(ending(harness, held))
    assert await jobs_of(harness) == []
    [kept] = await harness.store.waits(WaitFilter("default", "r"))
    assert (kept.state, kept.answer, kept.by, kept.settled_at) == ("answered", b"7", "J", at)
    loaded = await harness.load("r")
    told = Took(5).encoded()
    assert [(m.kind, m.name, m.payload) for m in loaded.mail] == [("answer", "work#1", told)]
    assert (loaded.run.status, loaded.run.wake_at) == ("waiting", at)


async def test_an_outcome_counts_once(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    held = await taken(harness)
    assert await harness.send(ending(harness, held))
    assert not await harness.send(ending(harness, held, b"8"))
    assert (await harness.row("r")).inbox_seq == 1


async def test_who_lost_a_job_cannot_hand_it_in(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    held = await taken(harness, "J")
    harness.clock.advance(LEASE + 1)
    await harness.reap("J")
    assert not await harness.send(ending(harness, held))
    again = await taken(harness, "K")
    assert (again.epoch, again.strikes, again.owner) == (2, 1, "K")
    assert not await harness.send(ending(harness, held))
    assert not await harness.send(ending(harness, held._replace(owner="K")))
    assert (await harness.row("r")).inbox_seq == 0
    assert await harness.send(ending(harness, again))


async def test_a_job_that_was_called_off_is_a_ghost(harness: Harness) -> None:
    run = await harness.held("r")
    run = await asked(harness, run)
    held = await taken(harness)
    off = Waits(overs=(("work#1", "the run no longer waits for it"),), drops=("work#1",))
    assert await harness.commit(run, answer("b#1"), waits=off) == "applied"
    assert await jobs_of(harness) == []
    assert (await claim(harness)).held == ()
    assert not await harness.send(ending(harness, held))
    assert not await harness.send(ReportJob(held.ns, held.run, JobRef(held.key, "J", 1)))
    assert (await harness.row("r")).inbox_seq == 0


async def test_a_job_that_is_asked_for_anew_takes_the_place_of_the_former(
    harness: Harness,
) -> None:
    run = await harness.held("r")
    run = await asked(harness, run)
    held = await taken(harness)
    again = job(run, other="2", attempt=2)
    opens = (wait(run, other="2", attempt=2),)
    turn = {"waits": Waits(opens, jobs=(again,))}
    assert await harness.commit(run, answer("b#1"), **turn) == "applied"
    assert not await harness.send(ending(harness, held))
    assert await taken(harness, "K") == again._replace(
        owner="K", epoch=1, begun_at=harness.store.now()
    )


async def test_a_terminated_run_has_no_jobs(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run, job(run, "work#1"), job(run, "work#2"))
    held = (await claim(harness, limit=1)).jobs[0]
    await harness.move("terminate")
    assert await jobs_of(harness) == []
    assert not await harness.send(ending(harness, held))


async def test_the_jobs_of_a_lost_worker_are_taken_by_others(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run, job(run, start_by=run.created_at + 5))
    await taken(harness, "J")
    assert await harness.store.jobs.claim(JobClaim("default", "J", (), 0, LEASE))
    harness.clock.advance(LEASE + 1)
    assert await harness.reap("J")
    [freed] = await jobs_of(harness)
    assert (freed.owner, freed.strikes, freed.start_by) == (None, 1, None)
    assert freed.wake_at == harness.store.now()


async def test_a_worker_that_lives_keeps_its_jobs(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    await taken(harness, "J")
    await harness.reap("J")
    assert (await jobs_of(harness))[0].owner == "J"


async def test_a_worker_with_jobs_does_not_retire(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    held = await taken(harness, "J")
    await harness.send(RetireWorker("J"))
    assert await harness.send(ending(harness, held))
    harness.clock.advance(LEASE + 1)
    await harness.send(RetireWorker("J"))


async def test_suspects_are_taken_one_by_one(harness: Harness) -> None:
    run = await harness.held("r")
    made = [*(job(run, f"work#{n}", strikes=2) for n in (1, 2)), job(run, "work#3")]
    await asked(harness, run, *made)
    assert [each.key for each in (await claim(harness, suspects=0)).jobs] == ["work#3"]
    assert [each.key for each in (await claim(harness)).jobs] == ["work#1"]


async def test_a_job_that_is_given_back_is_no_suspect(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    held = await taken(harness)
    ref = JobRef(held.key, "J", held.epoch)
    assert await harness.send(ReportJob("default", "r", ref, back_at=harness.store.now()))
    again = await taken(harness, "K")
    assert (again.strikes, again.epoch) == (0, 2)
    later, ref = harness.store.now() + SECOND, JobRef(again.key, "K", again.epoch)
    assert await harness.send(ReportJob("default", "r", ref, back_at=later))
    assert (await claim(harness)).jobs == ()
    harness.clock.advance(SECOND)
    assert (await taken(harness)).epoch == 3
    assert not await harness.send(ReportJob("default", "r", ref, back_at=harness.store.now()))


async def test_what_a_job_says_is_kept_while_it_is_held(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run, job(run, strikes=1))
    held = await taken(harness)
    beat = Progress("work#1", 1, 1, 9, b'"half"', held.epoch)
    line = LogLine(7, 20, "log", "said", "work#1", 1)
    ref = JobRef(held.key, "J", held.epoch, Annotations((line,), (beat,)))
    assert await harness.send(ReportJob("default", "r", ref, moves_on=True))
    assert (await harness.load("r")).progress == (beat,)
    assert await harness.store.logs(LogFilter("default", "r")) == [line]
    assert (await jobs_of(harness))[0].strikes == 0
    last = line._replace(at=8)
    ended = JobRef(held.key, "J", held.epoch, Annotations((last,)))
    assert await harness.send(ending(harness, held, job=ended))
    assert await harness.store.logs(LogFilter("default", "r")) == [line, last]


async def test_a_job_whose_outcome_comes_later_leaves_what_waits_for_it(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    held = await taken(harness)
    assert await harness.send(ending(harness, held, None))
    assert await jobs_of(harness) == []
    [kept] = await harness.store.waits(WaitFilter("default", "r"))
    assert kept.state == "open"
    [told] = (await harness.load("r")).mail
    assert told.id == f"deferred/{held.secret}"


async def test_a_job_that_nobody_holds_can_be_ended_as_it_was_seen(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    [free] = await jobs_of(harness)
    held = await taken(harness)
    assert not await harness.send(ending(harness, free))
    ref = JobRef(held.key, "J", held.epoch)
    await harness.send(ReportJob("default", "r", ref, back_at=harness.store.now()))
    [free] = await jobs_of(harness)
    assert await harness.send(ending(harness, free))


async def test_namespaces_do_not_take_jobs_from_each_other(harness: Harness) -> None:
    there = await harness.held("r", ns="other")
    await asked(harness, there)
    found = await claim(harness)
    assert (found.jobs, found.is_any) == ((), False)
    assert len(await jobs_of(harness, "other")) == 1
    assert (await claim(harness, ns="other")).jobs != ()


async def test_jobs_are_pruned_with_the_run(harness: Harness) -> None:
    run = await harness.held("r")
    await asked(harness, run)
    await harness.move("terminate")
    await prune(harness, harness.clock.advance())
    await harness.start("r", input=b"other")
    assert await jobs_of(harness) == []
