"""A store with one run of every kind, and ways to type commands at it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import holdfast as hf
from holdfast.cli.entry import root
from holdfast.kernel import dispatch
from holdfast.model.commands import QuarantineRun
from tests.cli import sample

SAMPLE = str(Path(sample.__file__))
Type = Callable[..., Result]
Shell = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'sample.db'}"


@pytest.fixture
def typed(url: str, monkeypatch: pytest.MonkeyPatch) -> Type:
    """Type a command in this process: `typed("runs", "list")`; a person reads it if asked so."""
    for name in ("FORCE_COLOR", "NO_COLOR", "HOLDFAST_APP"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOLDFAST_STORE", url)
    monkeypatch.setenv("COLUMNS", "112")

    def type_in(*words: str, person: bool = False, colour: bool = False) -> Result:
        env = {"FORCE_COLOR": "1" if person else "", "NO_COLOR": "" if colour else "1"}
        return CliRunner().invoke(root, words, env=env, prog_name="holdfast")

    return type_in


@pytest.fixture
def shell(url: str) -> Shell:
    """Type a command in a process of its own, through the door users have."""

    def run(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "holdfast", *words]
        return subprocess.run(
            command, env=environment(url, **env), capture_output=True, text=True, check=False
        )

    return run


def environment(url: str, **more: str) -> dict[str, str]:
    plain = {k: v for k, v in os.environ.items() if k not in ("FORCE_COLOR", "NO_COLOR")}
    return {**plain, "HOLDFAST_STORE": url, "HOLDFAST_APP": SAMPLE, "COLUMNS": "112", **more}


@pytest.fixture
def full(url: str) -> str:
    """A store with one run of every kind; each has its kind as the id."""
    asyncio.run(_fill(url))
    return url


async def _fill(url: str) -> None:
    async with sample.app.open(url) as client:
        done = await client.start(sample.greet.bind("ada", 2), id="completed")
        failed = await client.start(sample.fails.bind("luck"), id="failed")
        await client.start(sample.waits.bind(), id="waiting")
        await client.start(sample.waits_a_day.bind(), id="due")
        paused = await client.start(sample.waits.bind(), id="paused")
        await paused.pause("lunch")
        ended = await client.start(sample.waits.bind(), id="terminated")
        await client.start(sample.stuck.bind(), id="blocked")
        await done.result()
        with pytest.raises(hf.RunFailed):
            await failed.result()
        await ended.terminate("enough")
        await _settled(client)
    async with sample.app.open(url, worker=False) as client:
        await client.start(sample.greet.bind("bob"), id="pending")
        await client.start(sample.greet.bind("eve"), id="quarantined")
        now = client.engine.store.now()
        command = QuarantineRun("default", "quarantined", now, "five workers died of it")
        await client.engine.store.write([dispatch.decide(command)])


async def _settled(client: hf.Client) -> None:
    """Return when the runs that were asked to stop or wait do so."""
    wanted = {"waiting": "waiting", "due": "waiting", "paused": "paused", "blocked": "blocked"}
    for _ in range(2_000):
        if all([(await client.get(run).describe()).status == wanted[run] for run in wanted]):
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(f"The runs did not come to rest: {wanted}.")
