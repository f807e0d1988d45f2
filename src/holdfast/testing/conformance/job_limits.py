"""Jobs on managed queues: they hold slots as runs do, take turns by key, and give slots back."""

from __future__ import annotations

import asyncio
from typing import Any

from holdfast.model.commands import ReportJob, RetireWorker
from holdfast.model.jobs import Job, JobClaim, JobRef
from holdfast.model.run import Run
from holdfast.model.waits import Waits
from holdfast.model.writes import Notice
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import LEASE, Harness, answer, event, needs
from holdfast.testing.conformance.jobs import asked, claim, ending, job, jobs_of
from holdfast.testing.conformance.limits import close, manage, pause, start, state, take


async def ask(harness: Harness, *keys: str, run: Run | None = None, **fields: Any) -> Run:
    """Have a run ask for jobs on the queue `q`; `a1` has the key `a`."""
    held = run or await harness.held("r")
    made = [
        job(held, key, queue="q", queue_key=key.rstrip("0123456789"), wake_at=held.created_at + n)
        for n, key in enumerate(keys)
    ]
    await asked(harness, held, *(each._replace(**fields) for each in made))
    harness.clock.advance(SECOND)
    return await harness.row(held.id)


async def begun(harness: Harness, worker: str = "J", **fields: Any) -> list[str]:
    """Claim jobs; return their keys."""
    return [each.key for each in (await claim(harness, worker, **fields)).jobs]


async def held(harness: Harness, key: str) -> Job:
    """Return a job that somebody does."""
    [found] = [each for each in await jobs_of(harness) if each.key == key]
    assert found.owner, key
    return found


async def end(harness: Harness, key: str) -> None:
    """Hand a job in."""
    assert await harness.send(ending(harness, await held(harness, key)))


async def give_back(harness: Harness, key: str) -> None:
    """Leave a job to others, at once."""
    found = await held(harness, key)
    ref = JobRef(key, found.owner, found.epoch)
    back = ReportJob("default", found.run, ref, back_at=harness.store.now())
    assert await harness.send(back)


async def test_never_more_jobs_are_done_than_allowed(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    await ask(harness, "1", "2", "3", "4")
    assert await begun(harness, limit=1) == ["1"]
    assert await begun(harness, "K") == ["2"]
    assert await begun(harness) == []
    assert ((await state(harness)).held, (await state(harness)).waiting) == (2, 2)
    await end(harness, "1")
    assert (await state(harness)).held == 1
    assert await begun(harness, "K") == ["3"]
    assert await begun(harness) == []


async def test_other_queues_know_nothing_of_a_limit(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    run = await harness.held("r")
    jobs = [job(run, f"q{n}", queue="q") for n in (1, 2)] + [
        job(run, f"f{n}", queue="free") for n in (1, 2)
    ]
    await asked(harness, run, *jobs)
    assert await begun(harness) == ["f1", "f2", "q1"]
    assert await begun(harness) == []


async def test_lanes_with_and_without_limits_go_by_priority_and_time(harness: Harness) -> None:
    await manage(harness, concurrency=9)
    run = await harness.held("r")
    now = run.created_at
    await asked(
        harness, run,
        job(run, "late", queue="free", wake_at=now + 2),
        job(run, "soon", queue="q", wake_at=now + 1),
        job(run, "first", queue="q", priority=1, wake_at=now + 3),
        job(run, "last", queue="free", priority=5, wake_at=now),
    )  # fmt: skip
    harness.clock.advance(SECOND)
    assert await begun(harness, limit=3) == ["first", "soon", "late"]
    assert await begun(harness) == ["last"]


async def test_runs_and_jobs_share_the_slots_of_a_queue(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    await ask(harness, "1", "2")
    await start(harness, "a1", "a2")
    assert await take(harness, 1) == ["a1"]
    assert await begun(harness) == ["1"]
    assert (await state(harness)).held == 2
    assert await take(harness) == []
    assert await begun(harness) == []
    await end(harness, "1")
    assert await take(harness) == ["a2"]
    assert await begun(harness) == []
    await close(harness, "a1")
    assert await begun(harness) == ["2"]


async def test_a_run_never_waits_for_a_slot_that_it_holds_itself(harness: Harness) -> None:
    await manage(harness, concurrency=1, key_concurrency=1)
    await start(harness, "a1", "a2")
    assert await take(harness) == ["a1"]
    await ask(harness, "a1", "a2", "b3", run=await harness.row("a1"))
    assert await begun(harness) == ["a1"]
    assert await begun(harness, "K") == []
    assert (await state(harness)).held == 1
    await end(harness, "a1")
    assert await take(harness) == []
    assert await begun(harness) == ["a2"]
    await end(harness, "a2")
    assert await begun(harness) == ["b3"]
    await end(harness, "b3")
    await close(harness, "a1")
    assert await take(harness) == ["a2"]


async def test_one_job_at_a_time_is_done_in_the_slot_of_its_run(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    await start(harness, "a1", "b1")
    assert await take(harness, 1) == ["a1"]
    await ask(harness, "1", "2", "3", run=await harness.row("a1"))
    assert await begun(harness) == ["1", "2"]
    assert (await state(harness)).held == 2
    assert await take(harness) == []
    await end(harness, "1")  # what is left is done in the slot of the run
    assert (await state(harness)).held == 1
    assert await begun(harness) == ["3"]


async def test_a_key_has_its_own_limit(harness: Harness) -> None:
    await manage(harness, key_concurrency=1)
    await ask(harness, "a1", "a2", "b1", "1", "2")
    assert await begun(harness) == ["1", "a1", "b1", "2"]
    assert await begun(harness) == []
    await end(harness, "a1")
    assert await begun(harness) == ["a2"]


async def test_a_key_of_runs_is_one_of_jobs_too(harness: Harness) -> None:
    await manage(harness, key_concurrency=1)
    await start(harness, "a1", "a2", "b1")
    assert await take(harness, 1) == ["a1"]
    await ask(harness, "a1", "b1")
    assert await begun(harness) == ["b1"]
    assert await take(harness) == []
    await close(harness, "a1")
    assert await begun(harness) == ["a1"]
    assert await take(harness) == []


async def test_keys_of_jobs_take_turns(harness: Harness) -> None:
    await manage(harness, concurrency=100)
    await ask(harness, "a1", "a2", "a3", "b1", "c1", "c2")
    assert await begun(harness, limit=4) == ["a1", "b1", "c1", "a2"]
    assert await begun(harness) == ["c2", "a3"]


async def test_the_turns_of_runs_are_not_those_of_jobs(harness: Harness) -> None:
    await manage(harness, concurrency=100)
    await ask(harness, "a1", "a2", "b1", "b2")
    await start(harness, "a1", "b1")
    assert await begun(harness, limit=1) == ["a1"]
    assert await take(harness, 1) == ["a1"]
    assert await begun(harness, limit=1) == ["b1"]
    assert await take(harness, 1) == ["b1"]


async def test_a_key_whose_jobs_are_not_due_is_passed_over(harness: Harness) -> None:
    await manage(harness, concurrency=100)
    run = await harness.held("r")
    later = run.created_at + 10 * SECOND
    jobs = [job(run, "a1", queue="q", queue_key="a", wake_at=later)]
    await asked(harness, run, *jobs, job(run, "b1", queue="q", queue_key="b"))
    assert await begun(harness) == ["b1"]
    assert (await claim(harness)).next_wake_at == later


async def test_a_worker_takes_jobs_of_a_line_whose_steps_it_knows(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await ask(harness, "a1", step="else")
    await ask(harness, "b1", run=await harness.held("s"))
    assert await begun(harness) == ["b1"]
    await end(harness, "b1")
    assert await begun(harness, steps=("else",)) == ["a1"]


async def test_a_paused_queue_holds_jobs_back(harness: Harness) -> None:
    await manage(harness, concurrency=2)
    await ask(harness, "1", "2")
    assert await begun(harness, limit=1) == ["1"]
    await pause(harness, True)
    assert await begun(harness) == []
    await end(harness, "1")  # what was begun goes on to its end
    assert await begun(harness) == []
    await pause(harness, False)
    assert await begun(harness) == ["2"]


async def test_jobs_of_a_paused_run_do_not_hold_up_the_line(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    run = await ask(harness, "1")
    assert await harness.commit(run, event("run.paused"), status="paused") == "applied"
    await ask(harness, "2", run=await harness.held("s"))
    assert await begun(harness) == ["2"]


async def test_a_rate_counts_jobs(harness: Harness) -> None:
    await manage(harness, rate_count=2, rate_per=10 * SECOND)
    await ask(harness, "1", "2", "3")
    first = harness.store.now()
    found = await claim(harness)
    assert [each.key for each in found.jobs] == ["1", "2"]
    assert found.next_wake_at == first + 10 * SECOND
    for key in ("1", "2"):
        await end(harness, key)
    found = await claim(harness)
    assert (found.jobs, found.next_wake_at) == ((), first + 10 * SECOND)
    harness.clock.advance(10 * SECOND)
    assert await begun(harness) == ["3"]


async def test_runs_and_jobs_share_a_rate(harness: Harness) -> None:
    await manage(harness, rate_count=2, rate_per=10 * SECOND)
    await ask(harness, "1", "2")
    await start(harness, "a1")
    assert await begun(harness, limit=1) == ["1"]
    assert await take(harness) == ["a1"]
    assert await begun(harness) == []
    harness.clock.advance(10 * SECOND)
    assert await begun(harness) == ["2"]


async def test_a_worker_holds_no_more_of_a_queue_than_allowed(harness: Harness) -> None:
    await manage(harness, worker_concurrency=2)
    await ask(harness, "1", "2", "3", "4")
    await start(harness, "a1", "a2")
    assert await take(harness, 1, "J") == ["a1"]
    assert await begun(harness) == ["1"]
    assert await take(harness, worker="J") == []
    assert await begun(harness, "K") == ["2", "3"]
    await close(harness, "a1")
    assert await begun(harness) == ["4"]


async def test_the_slot_of_a_lost_worker_comes_back(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await ask(harness, "1", "2")
    assert await begun(harness) == ["1"]
    harness.clock.advance(LEASE + 1)
    assert await begun(harness, "K") == []
    await harness.reap("J")
    assert (await state(harness)).held == 0
    assert await begun(harness, "K", limit=1) == ["2"]
    assert await begun(harness, "K") == []
    await end(harness, "2")
    assert await begun(harness, "K") == ["1"]


async def test_the_slot_of_a_job_that_is_given_back_is_free(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    await ask(harness, "1")
    assert await begun(harness) == ["1"]
    await give_back(harness, "1")
    assert (await state(harness)).held == 0
    await harness.send(RetireWorker("J"))
    assert await begun(harness, "K") == ["1"]


async def test_the_slot_of_a_job_that_is_called_off_is_free(harness: Harness) -> None:
    await manage(harness, concurrency=1)
    run = await ask(harness, "1", "2")
    assert await begun(harness) == ["1"]
    off = Waits(overs=(("1", "the run no longer waits for it"),), drops=("1",))
    assert await harness.commit(run, answer("b#1"), waits=off) == "applied"
    assert await begun(harness) == ["2"]
    await harness.move("terminate")
    assert (await state(harness)).held == 0


async def test_suspects_of_a_line_are_taken_one_by_one(harness: Harness) -> None:
    await manage(harness, concurrency=9)
    await ask(harness, "a1", "b1", strikes=2)
    await ask(harness, "c1", run=await harness.held("s"))
    assert await begun(harness, suspects=0) == ["c1"]
    assert await begun(harness) == ["a1"]
    assert await begun(harness) == ["b1"]


async def test_who_waits_for_a_slot_hears_of_its_end(harness: Harness) -> None:
    heard: list[Notice] = []
    await ask(harness, "1", "2")
    await manage(harness, concurrency=1)
    assert await begun(harness, limit=1) == ["1"]
    stop = harness.store.listen(heard.extend)
    await end(harness, "1")
    stop()
    assert "ready" in [notice.what for notice in heard]


@needs("shared")
async def test_stores_on_the_same_data_never_begin_too_many_together(harness: Harness) -> None:
    await manage(harness, concurrency=3)
    await ask(harness, *(str(n) for n in range(9)))
    stores = (harness.store, await harness.another())
    claims = await asyncio.gather(
        *(
            stores[n % 2].jobs.claim(JobClaim("default", f"W{n}", ("work",), 2, LEASE))
            for n in range(8)
        )
    )
    assert sum(len(found.jobs) for found in claims) == 3
    assert (await state(harness)).held == 3
