"""A live change: 20 open runs, real workers, the code replaced under them in each way there is."""

import asyncio
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import holdfast as hf
from tests.docs.test_blocks import blocks
from tests.e2e.processes import ROOT, Yard
from tests.e2e.releases import first

RUNS = [f"order-{n:02}" for n in range(1, 21)]
RELEASES = Path(__file__).parent / "releases"
PAGE = ROOT / "docs" / "howto" / "change-code.md"
PATIENCE = 30.0
BEFORE = ["reserved lamp", "shipped lamp"]

VARIES = (
    (re.compile(r"\d+(\.\d+)? (ms|s)\b|<1 ms|\d+m \d+s"), "TIME"),
    (re.compile(r"after \d+ events"), "after N events"),  # a slow machine shows steps that run
    (re.compile(r"just now|\d+s ago"), "AGO"),
    (re.compile(r"(shape|code is) [0-9a-f]{8}"), r"\1 SHAPE"),
)
"""What differs from one recording to the next."""

Record = Callable[[str, object], None]


def told(text: str) -> list[str]:
    """Return the lines of a command's output, without what varies."""
    for pattern, name in VARIES:
        text = pattern.sub(name, text)
    return [line.rstrip() for line in text.strip().splitlines()]


def recorded() -> list[list[str]]:
    """Return what the page says that `holdfast runs why` prints, in the page's order."""
    found = [
        block.code for block in blocks(PAGE.read_text("utf-8")) if block.info == "console no-run"
    ]
    return [told(code) for code in found if code.startswith("$ holdfast runs why")]


class Shop:
    """A folder where a release of the shop is deployed as `shop.py`, over the one before."""

    def __init__(self, yard: Yard) -> None:
        self.yard, self.file = yard, yard.path.with_name("shop.py")

    def deploy(self, release: str) -> None:
        shutil.copy(RELEASES / f"{release}.py", self.file)

    @contextmanager
    def worker(self) -> Iterator[None]:
        """Run a worker on what is deployed, and stop it in good order."""
        command = self._command("worker", self.file.name)
        process = subprocess.Popen(command, cwd=self.file.parent, stderr=subprocess.PIPE, text=True)
        try:
            yield
        finally:
            process.terminate()
            _, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, err
        assert "Traceback" not in err, err

    def why(self, run: str) -> str:
        """Return what a person at a terminal sees."""
        shown = subprocess.run(
            self._command("runs", "why", run), cwd=self.file.parent, capture_output=True,
            text=True, check=True, env={
                "FORCE_COLOR": "1", "NO_COLOR": "1", "COLUMNS": "100",
                "HOLDFAST_STORE": self.yard.url,
            },
        )  # fmt: skip
        return f"$ holdfast runs why {run}\n{shown.stdout}"

    def _command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "holdfast", *words, "--store", self.yard.url]


@pytest.fixture
def shop(yard: Yard) -> Shop:
    return Shop(yard)


async def all_are(client: hf.Client, status: str) -> None:
    """Return when every one of the runs has this status."""
    async with asyncio.timeout(PATIENCE):
        while True:
            rows = [await client.get(id).describe() for id in RUNS]
            if {row.status for row in rows} == {status}:
                return
            await asyncio.sleep(0.02)


async def opened(shop: Shop, client: hf.Client) -> None:
    """Leave 20 runs half-way on the first release, and no worker."""
    shop.deploy("first")
    with shop.worker():
        for id in RUNS:
            await client.start(first.checkout.bind("lamp"), id=id)
        await all_are(client, "waiting")


async def pay(client: hf.Client, *ids: str) -> list[Any]:
    """Send the signal and return what the runs return."""
    async with asyncio.timeout(PATIENCE):
        for id in ids:
            await client.get(id).signal(first.paid, True)
        return [await client.get(id, first.checkout).result() for id in ids]


@pytest.mark.timeout(120)
async def test_a_compatible_change_is_taken_up_by_every_run(
    shop: Shop, record_property: Record
) -> None:
    async with first.app.open(shop.yard.url, worker=False) as client:
        await opened(shop, client)
        shop.deploy("compatible")
        with shop.worker():
            results = await pay(client, *RUNS)
        why = shop.why(RUNS[0])
    assert results == [["reserved lamp", "sent lamp", "thanks for lamp"]] * 20
    assert told(why) == recorded()[0], why
    await shop.yard.dump()
    record_property("e2e", "change: 20 open runs took a compatible change up")


@pytest.mark.timeout(120)
async def test_open_runs_go_on_as_before_and_new_ones_take_the_patch_up(
    shop: Shop, record_property: Record
) -> None:
    async with first.app.open(shop.yard.url, worker=False) as client:
        await opened(shop, client)
        shop.deploy("patched")
        with shop.worker():
            results = await pay(client, *RUNS)
            await client.start(first.checkout.bind("lamp"), id="new")
            assert await pay(client, "new") == [["checked lamp", *BEFORE]]
        why, why_new = shop.why(RUNS[0]), shop.why("new")
    assert results == [BEFORE] * 20
    assert told(why) == recorded()[1], why
    assert told(why_new) == recorded()[2], why_new
    await shop.yard.dump()
    record_property("e2e", "change: 20 open runs kept the former way, 1 new run took the patch up")


@pytest.mark.timeout(120)
async def test_an_incompatible_change_blocks_and_the_mended_code_goes_on(
    shop: Shop, record_property: Record
) -> None:
    async with first.app.open(shop.yard.url, worker=False) as client:
        await opened(shop, client)
        shop.deploy("incompatible")
        with shop.worker():
            for id in RUNS:
                await client.get(id).signal(first.paid, True)
            await all_are(client, "blocked")
            await client.get(RUNS[0]).retry()
            await all_are(client, "blocked")
        why = shop.why(RUNS[1])
        shop.deploy("patched")
        with shop.worker():
            async with asyncio.timeout(PATIENCE):
                results = [await client.get(id, first.checkout).result() for id in RUNS]
        mended = shop.why(RUNS[1])
    assert results == [BEFORE] * 20
    assert told(why) == recorded()[3], why
    assert told(mended) == recorded()[4], mended
    dump = await shop.yard.dump()
    kinds = [[e.kind for e in dump.events["default", id]] for id in RUNS]
    assert [each.count("run.blocked") for each in kinds] == [2, *[1] * 19]
    record_property(
        "e2e", "change: 20 open runs were blocked, and went on when the code was mended"
    )
