"""`holdfast steps cached` and `holdfast steps forget`; and how runs show what came of a cache."""

import asyncio
import json

import pytest

import holdfast as hf
from tests.cli.conftest import Type

app = hf.App("shop")


@app.step(cache=hf.Cache(3_600, key=lambda n: f"item-{n}", version="2"))
async def price(n: int) -> int:
    return n * 100


@app.workflow
async def quote(count: int) -> int:
    return sum([await price(n) for n in range(count)])


@pytest.fixture(autouse=True)
def runs(url: str) -> None:
    """Two runs, the second of which finds two results of the first."""

    async def fill() -> None:
        async with app.open(url) as client:
            for id, count in (("first", 2), ("second", 3)):
                await (await client.start(quote.bind(count), id=id)).result()

    asyncio.run(fill())


def test_what_is_kept_is_listed(typed: Type) -> None:
    [step] = json.loads(typed("steps", "cached", "--json").stdout)["steps"]
    assert (step["step"], step["version"], step["results"], step["expired"]) == ("price", "2", 3, 0)
    assert step["bytes"] == len("0100200")
    assert typed("steps", "cached").stdout.startswith("price\t2\t3\t0\t7\t")
    shown = typed("steps", "cached", "price", person=True).stdout
    assert "STEP" in shown.upper()
    assert "price" in shown
    assert "No results are kept" in typed("steps", "cached", "other", person=True).stdout


def test_results_are_forgotten_by_step_and_by_key(typed: Type) -> None:
    dry = typed("steps", "forget", "price", "--dry-run")
    assert (dry.stdout, dry.stderr) == ("3\n", "3 results of price would be forgotten\n")
    one = typed("steps", "forget", "price", "--key", "item-1", "--json")
    assert json.loads(one.stdout) == {
        "step": "price", "key": "item-1", "results": 1, "forgotten": True,
    }  # fmt: skip
    rest = typed("steps", "forget", "price")
    assert (rest.stdout, rest.stderr) == ("2\n", "2 results of price were forgotten\n")
    none = typed("steps", "forget", "price")
    assert (none.exit_code, none.stdout) == (0, "0\n")


def test_a_step_must_have_a_name(typed: Type) -> None:
    refused = typed("steps", "forget", "")
    assert refused.exit_code == 2
    assert "names no step" in refused.stderr


def test_runs_show_which_results_are_cached(typed: Type) -> None:
    shown = typed("runs", "show", "second", person=True).stdout
    assert shown.count("cached") == 2
    events = json.loads(typed("runs", "show", "second", "--json").stdout)["history"]
    steps = [event for event in events if event["kind"] == "step.completed"]
    assert [(event["cached"], event["took_us"] is None) for event in steps] == [
        (True, True), (True, True), (False, False),
    ]  # fmt: skip
    watched = typed("runs", "watch", "second", person=True).stdout
    assert "2 cached" in watched
    differs = json.loads(typed("runs", "diff", "first", "second", "--json").stdout)
    [item] = [item for item in differs["items"] if item["key"] == "price#1"]
    assert (item["verdict"], item["b"]["took_us"]) == ("same", None)
