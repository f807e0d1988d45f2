"""Schedules on every store: made, fired, steered, declared in code."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

import holdfast as hf
from tests.engine.places import Place, event_of, within

go = hf.Signal("go", str)
DAY = timedelta(days=1)
EVERY_SECOND = hf.Schedule(every=1)
DAILY = hf.Schedule(cron="0 3 * * *", zone="Europe/Berlin")


class Office:
    """A workflow that tells its slot, and one that waits."""

    def __init__(self, app: hf.App) -> None:
        @app.workflow
        async def report(team: str) -> str:
            return f"{team} {hf.scheduled_at()}"

        @app.workflow
        async def meeting() -> str:
            return await hf.wait_for(go)

        self.report, self.meeting = report, meeting


@pytest.fixture
def office(app: hf.App) -> Office:
    return Office(app)


async def appeared(client: hf.Client, prefix: str, count: int = 1) -> list[str]:
    """Return the ids of runs that begin so, once there are as many; the oldest first."""

    async def look() -> list[str]:
        while True:
            ids = sorted(run.id for run in (await client.list(limit=100)).runs)
            found = [id for id in ids if id.startswith(prefix)]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)

    return await within(look())


async def test_the_clock_starts_a_run_for_each_slot(
    place: Place, app: hf.App, office: Office
) -> None:
    async with place.open(app) as client:
        await client.schedules.create("tick", office.report.bind("ops"), EVERY_SECOND)
        first, second = (await appeared(client, "tick@", 2))[:2]
        await client.schedules.delete("tick")
        told = await within(client.get(first, office.report).result())
        slot = datetime.fromisoformat(first.removeprefix("tick@"))
        assert told == f"ops {slot}"
        assert datetime.fromisoformat(second.removeprefix("tick@")) >= slot + timedelta(seconds=1)
        with pytest.raises(hf.ScheduleNotFound):
            await client.schedules.get("tick")


async def test_two_workers_start_one_run_a_slot(place: Place, app: hf.App, office: Office) -> None:
    if place.kind == "memory":
        return  # it lives in one process
    async with place.open(app) as one, place.open(app) as two:
        await one.schedules.create(
            "tick", office.report.bind("ops"), hf.Schedule(every=1, overlap=hf.Overlap.ALLOW)
        )
        ids = await appeared(two, "tick@", 3)
        state = await two.schedules.pause("tick")
        assert [slot.run for slot in state.recent][:3] == ids[:3]
        assert {slot.outcome for slot in state.recent} == {"started"}


async def test_a_trigger_starts_at_once_also_while_it_is_paused(
    place: Place, app: hf.App, office: Office
) -> None:
    async with place.open(app) as client:
        schedules = client.schedules
        await schedules.create("nightly", office.report.bind("ops"), DAILY, paused=True)
        run = await schedules.trigger("nightly")
        assert run.startswith("nightly@trigger-")
        assert (await within(client.get(run, office.report).result())).startswith("ops 20")
        assert await schedules.trigger("nightly", key="a") == "nightly@trigger-a"
        assert await schedules.trigger("nightly", key="a") == "nightly@trigger-a"
        assert len(await appeared(client, "nightly@")) == 2


async def test_a_backfill_starts_slots_of_the_past_once(
    place: Place, app: hf.App, office: Office
) -> None:
    async with place.open(app) as client:
        schedules, start = client.schedules, datetime(2026, 3, 27, 12, tzinfo=UTC)
        await schedules.create("nightly", office.report.bind("ops"), DAILY)
        for _ in range(2):
            await schedules.backfill("nightly", start, start + 3 * DAY)
        ids = await appeared(client, "nightly@", 3)
        assert ids == [
            "nightly@2026-03-28T02:00:00Z",
            "nightly@2026-03-29T01:00:00Z",
            "nightly@2026-03-30T01:00:00Z",
        ]
        for id in ids:
            await within(client.get(id, office.report).result())
        await schedules.backfill("nightly", start, start + 3 * DAY)

        async def settled() -> None:  # slots that have their run leave the line at the next look
            while True:
                if not (await schedules.get("nightly")).waiting:
                    return
                await asyncio.sleep(0.05)

        await within(settled())
        assert await appeared(client, "nightly@", 3) == ids


async def test_what_waits_starts_when_the_run_closes(
    place: Place, app: hf.App, office: Office
) -> None:
    async with place.open(app) as client:
        schedules, start = client.schedules, datetime(2026, 3, 27, 12, tzinfo=UTC)
        await schedules.create("s", office.meeting.bind(), DAILY)
        state = await schedules.backfill("s", start, start + 2 * DAY)
        first, second = "s@2026-03-28T02:00:00Z", "s@2026-03-29T01:00:00Z"
        await appeared(client, first)
        assert (state.running, len(state.waiting)) == ((first,), 1)
        await client.get(first).signal(go, "go")
        await appeared(client, second)
        await client.get(second).terminate("enough")
        assert (await schedules.get("s")).running == ()


async def test_a_cancelled_run_gives_way(place: Place, app: hf.App, office: Office) -> None:
    async with place.open(app) as client:
        spec = hf.Schedule(every=1, overlap=hf.Overlap.CANCEL_OTHER, limit=2)
        await client.schedules.create("s", office.meeting.bind(), spec)
        first, second = await appeared(client, "s@", 2)
        with pytest.raises(hf.RunCancelled):
            await within(client.get(first).result())
        asked = await event_of(client.get(first), "cancel.requested")
        assert f"goes on with {second}" in (asked.payload or b"").decode()
        await client.get(second).signal(go, "done")
        assert await within(client.get(second, office.meeting).result()) == "done"
        assert (await client.schedules.get("s")).next == ()


async def test_a_schedule_is_made_once_and_changed_by_name(
    place: Place, app: hf.App, office: Office
) -> None:
    async with place.open(app) as client:
        schedules, bound = client.schedules, office.report.bind("ops")
        made = await schedules.create("nightly", bound, DAILY, tags=["night"])
        assert await schedules.create("nightly", bound, DAILY) == made
        assert (made.workflow, made.paused, made.declared) == ("report", False, False)
        assert [f"{at:%H:%M %Z}" for at in made.next] == ["03:00 " + f"{at:%Z}" for at in made.next]
        with pytest.raises(hf.ScheduleConflict, match="with another time"):
            await schedules.create("nightly", bound, EVERY_SECOND)
        with pytest.raises(hf.ScheduleConflict, match="with another input"):
            await schedules.create("nightly", office.report.bind("web"), DAILY)
        with pytest.raises(hf.ScheduleConflict, match="with another workflow"):
            await schedules.create("nightly", office.meeting.bind(), DAILY)
        await schedules.pause("nightly", note="holidays")
        yearly = hf.Schedule(cron="0 3 1 1 *")
        changed = await schedules.update("nightly", office.meeting.bind(), yearly)
        assert (changed.workflow, changed.paused, changed.note) == ("meeting", True, "holidays")
        resumed = await schedules.resume("nightly")
        assert [at.day for at in resumed.next] == [1] * 5
        assert [state.id for state in await schedules.list()] == ["nightly"]
        assert await schedules.list(after="nightly") == []


async def test_runs_are_started_with_the_options_of_the_schedule(
    place: Place, app: hf.App, office: Office
) -> None:
    async with place.open(app) as client:
        await client.schedules.create(
            "nightly", office.meeting.bind(), DAILY, tags=["night"], attributes={"team": "ops"},
            queue="slow", priority=5, timeout=DAY,
        )  # fmt: skip
        run = await client.schedules.trigger("nightly", key="a")
        row = await client.get(run).describe()
        assert (row.queue, row.priority, row.deadline is not None) == ("slow", 5, True)
        labels = await client.get(run).labels()
        assert (labels.tags, labels.attributes) == (("night",), {"team": "ops"})
        await client.get(run).terminate("enough")


async def test_what_code_declares_is_kept_and_changed_when_the_app_is_opened(
    place: Place, app: hf.App, office: Office
) -> None:
    app.schedule("nightly", office.report.bind("ops"), DAILY)
    with pytest.raises(hf.BadDefinition, match="already has a schedule 'nightly'"):
        app.schedule("nightly", office.report.bind("ops"), DAILY)
    async with place.open(app) as client:
        state = await client.schedules.get("nightly")
        assert (state.declared, state.schedule.zone) == (True, "Europe/Berlin")
        await client.schedules.pause("nightly", note="why")
    later = hf.App("engine-tests")
    changed = Office(later)
    later.schedule("nightly", changed.report.bind("ops"), hf.Schedule(cron="0 4 * * *"))
    async with place.open(later) as client:
        state = await client.schedules.get("nightly")
        if place.kind == "memory":
            return  # it was another store
        assert (state.schedule.cron, state.paused, state.note) == ("0 4 * * *", True, "why")
    async with place.open(later) as client:
        assert await client.schedules.get("nightly") == state, "opened again, nothing changes"


async def test_a_schedule_of_work_that_a_worker_does_not_know_is_left_to_others(
    place: Place, app: hf.App, office: Office
) -> None:
    other = hf.App("other")
    known = Office(other)

    @other.workflow
    async def ending() -> str:
        return "ended"

    async with place.open(app) as client:
        foreign = ending.bind()
        await client.schedules.create("a", foreign, hf.Schedule(every=1))
        await client.schedules.create("b", office.report.bind("ops"), hf.Schedule(every=1))
        await appeared(client, "b@", 2)
        assert [run.id for run in (await client.list()).runs if run.id.startswith("a@")] == []
        assert known.report.name == "report"


async def test_the_slot_stays_when_a_run_continues_as_new_and_is_forked(
    place: Place, app: hf.App
) -> None:
    @app.workflow
    async def turning(left: int) -> str:
        await hf.sleep(0.001)
        if left:
            hf.continue_as_new(turning.bind(left - 1))
        return str(hf.scheduled_at())

    async with place.open(app) as client:
        await client.schedules.create("s", turning.bind(2), DAILY)
        start = datetime(2026, 3, 27, 12, tzinfo=UTC)
        await client.schedules.backfill("s", start, start + DAY)
        (id,) = await appeared(client, "s@")
        slot = "2026-03-28 02:00:00+00:00"
        assert await within(client.get(id, turning).result()) == slot
        forked = await client.get(id, turning).fork(id="fork")
        assert await within(forked.result()) == slot


async def test_other_runs_have_no_slot(place: Place, app: hf.App, office: Office) -> None:
    async with place.open(app) as client:
        run = await client.start(office.report.bind("ops"))
        assert await within(run.result()) == "ops None"
        with pytest.raises(hf.NotInBody, match=r"hf\.scheduled_at"):
            hf.scheduled_at()
