"""Schedules at the command line: listed, shown, steered."""

import asyncio
import json

import pytest

import holdfast as hf
from holdfast.model.commands import FireSchedule
from holdfast.model.schedules import ScheduleFilter
from tests.cli.conftest import Type

app = hf.App("office")


@app.workflow
async def report(team: str) -> str:
    return team


@pytest.fixture
def made(url: str) -> None:
    async def fill() -> None:
        async with app.open(url, worker=False) as client:
            berlin = hf.Schedule(cron="0 3 * * *", zone="Europe/Berlin")
            await client.schedules.create("nightly", report.bind("ops"), berlin)
            await client.schedules.create("pulse", report.bind("web"), hf.Schedule(every=300))

    asyncio.run(fill())


@pytest.mark.usefixtures("made")
def test_they_are_listed(typed: Type) -> None:
    assert typed("schedules", "list").stdout.splitlines() == [
        "nightly\treport\t0 3 * * * Europe/Berlin\tidle",
        "pulse\treport\tevery 5m 00s\tidle",
    ]
    assert "Europe/Berlin" in typed("schedules", "list", person=True).stdout
    assert "pulse" in typed("schedules", "list", "--after", "nightly").stdout
    listed = json.loads(typed("schedules", "list", "--json").stdout)["schedules"]
    assert [each["id"] for each in listed] == ["nightly", "pulse"]


@pytest.mark.usefixtures("made")
def test_the_next_five_are_shown_in_the_zone(typed: Type) -> None:
    shown = typed("schedules", "show", "nightly").stdout
    assert shown.count("  next ") == 5
    assert shown.count("03:00:00 CE") == 5
    told = json.loads(typed("schedules", "show", "nightly", "--json").stdout)
    assert told["schedule"] == {"cron": "0 3 * * *", "zone": "Europe/Berlin"}
    assert all("T03:00:00+0" in at for at in told["next"])


@pytest.mark.usefixtures("made")
def test_they_are_steered(typed: Type) -> None:
    assert typed("schedules", "pause", "nightly", "--note", "holidays").exit_code == 0
    assert "paused: holidays" in typed("schedules", "list").stdout
    told = json.loads(typed("schedules", "resume", "nightly", "--json").stdout)
    assert (told["paused"], told["note"]) == (False, "")
    run = typed("schedules", "trigger", "nightly", "--key", "a").stdout.strip()
    assert run == "nightly@trigger-a"
    assert typed("runs", "show", run).exit_code == 0
    filled = typed("schedules", "backfill", "nightly", "2026-03-28", "2026-03-31", "--json")
    assert len(json.loads(filled.stdout)["waiting"]) == 3
    assert "waiting" in typed("schedules", "show", "nightly").stdout
    assert typed("schedules", "delete", "nightly", person=True).stdout.startswith("✓ nightly")
    assert typed("schedules", "show", "nightly").exit_code != 0


@pytest.mark.usefixtures("made")
def test_what_is_no_time_is_refused(typed: Type) -> None:
    refused = typed("schedules", "backfill", "nightly", "yesterday", "2026-03-31")
    assert refused.exit_code != 0
    assert "'yesterday' is no time" in refused.output


def test_nothing_is_said_so(typed: Type) -> None:
    typed("db", "migrate")
    assert typed("schedules", "list", person=True).stdout.strip() == "There is no schedule."


def test_what_nobody_looks_at_is_told(typed: Type, url: str) -> None:
    async def fill() -> None:
        async with app.open(url, worker=False) as client:
            await client.schedules.create("late", report.bind("ops"), hf.Schedule(every=3600))
            store = client.engine.store
            (row,) = await store.schedules(ScheduleFilter("default"))
            past = row._replace(cursor=row.cursor - 10**13, since=0)
            await client.engine.do(FireSchedule(past, past.cursor, frozenset()))

    asyncio.run(fill())
    assert "overdue: no worker that knows report" in typed("schedules", "list").stdout
    assert json.loads(typed("doctor", "--json").stdout)["overdue_schedules"] == ["late"]
    assert "overdue\tlate\treport\t" in typed("doctor").stdout
    assert "no worker that knows report looks at it" in typed("doctor", person=True).stdout
