"""`holdfast db rekey`, as it is typed."""

import asyncio
import json

import pytest

import holdfast as hf
from tests.cli import sample
from tests.cli.conftest import Type

OLD, NEW = f"old:{hf.KeyRing.new_key()}", f"new:{hf.KeyRing.new_key()}"


@pytest.fixture
def encrypted(url: str) -> str:
    """A store with a run that the old key has encrypted."""

    async def start() -> None:
        ring = hf.KeyRing.from_text(OLD)
        async with sample.app.open(url, worker=False, keys=ring) as client:
            await client.start(sample.app.workflows["greet"].bind("ada"), id="r")

    asyncio.run(start())
    return url


def test_it_says_which_keys_can_go(
    typed: Type, encrypted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_KEYS", f"{OLD},{NEW}")
    seen = json.loads(typed("db", "rekey", "--dry-run", "--json").stdout)
    assert (seen["rewritten"], seen["used"], seen["unused"]) == (2, {"old": 2}, [])
    told = typed("db", "rekey", person=True)
    assert "2 rows encrypted anew with key new" in told.stdout
    assert "no longer used: old; take them off the ring" in told.stdout
    assert typed("db", "rekey").stdout.splitlines()[-1] == "unused\told\t0"
    monkeypatch.setenv("HOLDFAST_KEYS", NEW)
    assert "ada" in typed("runs", "show", "r", "--json").stdout


def test_a_key_that_is_missing_is_named(
    typed: Type, encrypted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = typed("db", "rekey")
    assert (refused.exit_code, "no keys to encrypt with" in refused.output) == (5, True)
    monkeypatch.setenv("HOLDFAST_KEYS", NEW)
    failed = typed("db", "rekey")
    assert failed.exit_code == 1
    assert "Their keys: old (2)" in failed.output
    assert typed("db", "rekey", "--dry-run").exit_code == 0
