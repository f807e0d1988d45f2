"""`holdfast runs query` and `runs update`, and what the other commands tell of them."""

import asyncio
import json
from pathlib import Path

import pytest

import holdfast as hf
from tests.cli import talking
from tests.cli.conftest import Type

APP = ("--app", str(Path(talking.__file__)))


@pytest.fixture
def run(url: str) -> str:
    """A parked run that has taken an update, refused one, and lets one wait for its handler."""
    asyncio.run(_fill(url))
    return "sum"


async def _fill(url: str) -> None:
    async with talking.app.open(url) as client:
        run = await client.start(talking.sums.bind(), id="sum")
        assert await run.update(talking.add, 3, id="u1") == 3
        waits = asyncio.ensure_future(run.update(talking.late, id="u3"))
        for _ in range(2_000):
            if "a handler for update late" in (await run.describe()).reason:
                break
            await asyncio.sleep(0.01)
        waits.cancel()


def test_a_query_is_answered_without_a_worker(typed: Type, run: str) -> None:
    assert typed("runs", "query", run, "total", *APP).stdout == "3\n"
    assert typed("runs", "query", run, "share", "2", *APP).stdout == "1.5\n"
    unknown = typed("runs", "query", run, "totl", *APP)
    assert unknown.exit_code == 2
    assert "Did you mean 'total'? It answers: share, total" in unknown.stderr


def test_an_update_that_was_decided_gets_its_reply_again(typed: Type, run: str) -> None:
    assert typed("runs", "update", run, "add", "3", "--id", "u1").stdout == "3\n"
    accepted = typed("runs", "update", run, "add", "3", "--id", "u1", "--accepted")
    assert (accepted.stdout, accepted.stderr) == ('"u1"\n', "update add is accepted\n")
    other = typed("runs", "update", run, "add", "4", "--id", "u1")
    assert other.exit_code == 2
    assert "has a message 'u1' with another value" in other.stderr


def test_a_refusal_is_an_error(typed: Type, run: str, url: str) -> None:
    async def refuse() -> None:
        async with talking.app.open(url) as client:
            with pytest.raises(hf.UpdateRejected):
                await client.get(run).update(talking.add, -1, id="u2")

    asyncio.run(refuse())
    refused = typed("runs", "update", run, "add", "-1", "--id", "u2", "--accepted")
    assert refused.exit_code == 1
    assert "refused update 'add' (u2): ValueError: too small" in refused.stderr


def test_why_says_what_an_update_waits_for(typed: Type, run: str) -> None:
    told = json.loads(typed("runs", "why", run, "--json").stdout)
    words = " ".join(told["why"])
    assert "waited for signal done or update add" in words
    assert "Update late waits until its body registers a handler for it." in words
    assert "waiting to be read" not in words
    told_too = typed("runs", "why", run).stdout
    assert f"holdfast runs update {run} add JSON" in told_too


def test_show_lists_updates_and_what_waits(typed: Type, run: str) -> None:
    text = typed("runs", "show", run, person=True).stdout
    assert "← update add accepted" in text
    assert "✓ update add completed" in text
    assert "unread    1 message: late" in text
    lines = typed("runs", "show", run).stdout.splitlines()
    assert [line.split("\t")[2] for line in lines] == [
        "run.started",
        "update.accepted",
        "update.completed",
    ]
