"""A run that could not undo all it had done, as a person and as a program see it."""

import asyncio
import json

import pytest

import holdfast as hf
from tests.cli.conftest import Type

app = hf.App("sagas")
BROKEN: set[str] = set()


@app.step
async def charge() -> str:
    return "receipt"


@app.step(retry=hf.Retry(max_attempts=1))
async def refund(receipt: str | None) -> None:
    if BROKEN:
        raise ConnectionError("the bank is away")


@app.workflow
async def order() -> None:
    async with hf.saga() as saga:
        await saga.do(charge(), undo=refund)
        raise ValueError("nothing left")


@pytest.fixture
def owing(url: str) -> None:
    BROKEN.add("bank")

    async def fill() -> None:
        async with app.open(url) as client:
            run = await client.start(order.bind(), id="owing")
            with pytest.raises(hf.RunCompensationFailed):
                await run.result()

    asyncio.run(fill())


OWED = "refund of charge#1 (ConnectionError: the bank is away)"


@pytest.mark.usefixtures("owing")
def test_show_lists_what_is_owed(typed: Type) -> None:
    shown = typed("runs", "show", "owing", person=True).stdout
    assert "✗ compensation_failed  order owing" in shown
    assert f"  owed      {OWED}\n" in shown
    assert "✗ undo(charge#1)/refund#1" in shown
    assert "holdfast runs retry owing" in shown
    told = json.loads(typed("runs", "show", "owing", "--json=status,owed").stdout)
    owed = {"key": "charge#1", "undo": "refund", "type": "ConnectionError"}
    message = {"message": "the bank is away"}
    assert told == {"status": "compensation_failed", "owed": [{**owed, **message}]}


@pytest.mark.usefixtures("owing")
def test_why_says_what_is_owed_and_what_comes_then(typed: Type) -> None:
    told = json.loads(typed("runs", "why", "owing", "--json").stdout)
    assert told["why"][0].startswith("It could not undo all it had done, ")
    assert told["why"][1:] == [
        f"Still owed: {OWED}.",
        "Once that is done, it is failed: ValueError: nothing left.",
    ]
    assert told["next"][0] == "holdfast runs retry owing"


@pytest.mark.usefixtures("owing")
def test_result_fails_with_the_code_and_the_next_command(typed: Type) -> None:
    said = typed("runs", "result", "owing")
    assert said.exit_code == 1
    assert "HF305" in said.stderr
    assert "holdfast runs retry owing" in said.stderr


@pytest.mark.usefixtures("owing")
def test_it_is_found_and_retried(typed: Type, url: str) -> None:
    assert "owing" in typed("runs", "list", "--status", "compensation_failed").stdout
    assert typed("runs", "show", "@failed", "--json=id").stdout == '{"id": "owing"}\n'
    BROKEN.clear()
    assert typed("runs", "retry", "owing").exit_code == 0

    async def finish() -> None:
        async with app.open(url) as client:
            with pytest.raises(hf.RunFailed, match="nothing left"):
                await client.get("owing", order).result()

    asyncio.run(finish())
    assert "● reopened for compensation" in typed("runs", "show", "owing", person=True).stdout
    assert json.loads(typed("runs", "show", "owing", "--json=owed").stdout) == {"owed": []}
    assert typed("doctor").exit_code == 0
