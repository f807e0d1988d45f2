"""The commands on a database that many hosts share."""

import asyncio
import json

import asyncpg
import pytest

from holdfast.cli import doctor
from tests.cli import sample
from tests.cli.conftest import Type


@pytest.fixture
def url(postgres_store: str) -> str:
    return postgres_store


def test_a_run_is_listed_shown_and_explained(typed: Type, url: str) -> None:
    async def start() -> None:
        async with sample.app.open(url, worker=False) as client:
            await client.start(sample.app.workflows["greet"].bind("ada"), id="greeting")

    asyncio.run(start())
    assert json.loads(typed("runs", "list", "--json").stdout)[0]["id"] == "greeting"
    assert "run.started" in typed("runs", "show", "greeting").stdout
    assert "no worker" in typed("runs", "why", "greeting").stdout.lower()
    assert typed("runs", "cancel", "greeting").exit_code == 0


def test_the_doctor_tells_settings_and_sizes(typed: Type) -> None:
    told = json.loads(typed("doctor", "--json").stdout)
    assert (told["store"]["fsync"], told["violations"], told["degraded"]) == ("on", [], "")
    assert told["store"]["runs_bytes"] > 0
    assert told["store"]["events_index_bytes"] > 0
    person = typed("doctor", person=True)
    assert person.exit_code == 0
    assert "PostgreSQL" in person.stdout
    assert "fsync=on" in person.stdout


def test_the_doctor_tells_of_a_transaction_that_is_open_for_long(
    typed: Type, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor, "LONG", 0)

    async def look() -> str:
        connection = await asyncpg.connect(url)
        async with connection.transaction(isolation="repeatable_read"):
            await connection.fetch("SELECT * FROM holdfast.runs")
            told = await asyncio.to_thread(typed, "doctor", person=True)
        await connection.close()
        return told.stdout

    assert "transaction" not in typed("doctor", person=True).stdout
    assert json.loads(typed("doctor", "--json").stdout)["store"]["dead_rows"] >= 0
    assert "! a transaction has been open for " in asyncio.run(look())


def test_a_database_without_our_schema_is_not_made_by_a_look(
    typed: Type, postgres_url: str
) -> None:
    listed = typed("runs", "list", "--store", postgres_url)
    assert listed.exit_code == 5
    assert "db migrate" in listed.output
    assert "schema from version 0 to" in typed("db", "migrate", "--store", postgres_url).stdout
    assert "schema is at version" in typed("db", "migrate", "--store", postgres_url).stdout
    assert typed("runs", "list", "--store", postgres_url).exit_code == 0


def test_a_backup_is_the_servers_business(typed: Type) -> None:
    refused = typed("db", "backup", "copy.db")
    assert refused.exit_code != 0
    assert "pg_dump" in refused.output
