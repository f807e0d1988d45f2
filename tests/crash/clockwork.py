"""The scenarios of the sweep in which the clock starts runs."""

import asyncio
import dataclasses
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import holdfast as hf
from holdfast.model.schedules import slot_id
from holdfast.testing.clock import BEGINNING
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import SETTINGS, Scenario, World, effect

app = hf.App("crash-clockwork")
SECOND = 1_000_000
BEGIN = datetime.fromtimestamp(BEGINNING // SECOND, UTC)
DAY = timedelta(days=1)


@app.step
async def tick(at: str) -> str:
    effect(at)
    return at


@app.workflow
async def ticking(seconds: float) -> str:
    shown = await tick(f"{hf.scheduled_at():%d %H:%M:%S}")
    await hf.sleep(seconds)
    return shown


@app.workflow
async def lasting() -> str:
    """Lasts until it is ended."""
    try:
        await hf.sleep(DAY)
    except asyncio.CancelledError:
        return await tick("the end")
    return "too late"


def slots(first: float, every: float, count: int) -> list[int]:
    """Return the slots that lie so many seconds after the beginning."""
    return [round(BEGINNING + (first + n * every) * SECOND) for n in range(count)]


def between(first: float, last: float, **rules: object) -> hf.Schedule:
    """Return a schedule whose slots lie ten seconds apart, from here to there."""
    start, end = (BEGIN + timedelta(seconds=each) for each in (first, last))
    return hf.Schedule(every=10, start=start, end=end, **rules)  # type: ignore[arg-type]


async def run_slots(caller: Caller) -> None:
    """Three slots, ten seconds apart, whose runs take twelve: each waits for the one before."""
    await caller.schedule("s", ticking.bind(12), between(60, 80, overlap=hf.Overlap.BUFFER_ALL))
    for slot in slots(60, 10, 3):
        run = slot_id("s", slot)
        await caller.until_there(run)
        status, _ = await caller.result(run)
        assert status == "completed"


async def run_steered(caller: Caller) -> None:
    """A backfill, a trigger, a pause: none of it twice, none of it lost."""
    await caller.schedule("s", ticking.bind(0), hf.Schedule(every=DAY), paused=True)
    await caller.resume_schedule("s")
    await caller.backfill("s", BEGIN - 3 * DAY, BEGIN)
    first = await caller.trigger("s", "first")
    await caller.hold_schedule("s")
    second = await caller.trigger("s", "second")
    await caller.resume_schedule("s")
    midnight = BEGINNING // (86_400 * SECOND) * 86_400 * SECOND
    for run in (first, second, *(slot_id("s", midnight - n * 86_400 * SECOND) for n in range(3))):
        await caller.until_there(run)
        status, _ = await caller.result(run)
        assert status == "completed"


async def run_replaced(caller: Caller) -> None:
    """Runs that last until the next slot ends them; the last is ended by hand."""
    for overlap in (hf.Overlap.CANCEL_OTHER, hf.Overlap.TERMINATE_OTHER):
        await caller.schedule(overlap, lasting.bind(), between(60, 80, overlap=overlap))
    for overlap in (hf.Overlap.CANCEL_OTHER, hf.Overlap.TERMINATE_OTHER):
        run = slot_id(overlap, slots(80, 10, 1)[0])
        await caller.until_there(run)
        await caller.cancel(run)
        await caller.result(run)


def none_overlap(world: World) -> list[str]:
    """No run of a schedule begins before the one before it has closed."""
    found: list[str] = []
    for row in world.dump.schedules:
        mine = [run for run in world.dump.runs if run.id.startswith(f"{row.id}@2")]
        mine.sort(key=lambda run: run.created_at)
        for before, after in pairwise(mine):
            if before.closed_at is None or before.closed_at > after.created_at:
                found.append(f"I11: {after.id} began before {before.id} had closed")
        started = [slot_id(row.id, past.at) for past in row.recent if past.outcome == "started"]
        ids = {run.id for run in world.dump.runs}
        found += [f"I11: {run} is said to be started" for run in started if run not in ids]
    return found


CALM = dataclasses.replace(SETTINGS, poll=20.0)
CLOCKWORK = (
    Scenario("slots", app, run_slots, apart=True, workers=2, check=none_overlap, settings=CALM),
    Scenario("schedule-steered", app, run_steered, workers=1, check=none_overlap,
             loose=frozenset({"tick", "ticking"})),
    Scenario("schedule-replaces", app, run_replaced, workers=1, either=True, check=none_overlap,
             settings=CALM),
)  # fmt: skip
