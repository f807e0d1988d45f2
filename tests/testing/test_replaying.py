"""`holdfast.testing.replay`: a recorded history on the present code."""

import asyncio
import json
from pathlib import Path

import pytest

import holdfast as hf
from holdfast.errors import BodyStuck, GuardViolation, InvalidExport
from holdfast.model.exports import document_of
from holdfast.model.run import Loaded
from holdfast.testing import replay

app = hf.App("shop")
go = hf.Signal("go", int)
done: list[str] = []


@app.step
async def work(item: str) -> str:
    done.append(item)
    return item.upper()


@app.workflow
async def order(item: str, times: int = 1) -> str:
    first = await work(item)
    cents = await hf.wait_for(go, timeout=60)
    return f"{first} for {cents}"


@app.workflow
async def other(item: str, times: int = 1) -> str:
    await work("something else")
    return item


@app.workflow
async def ends_otherwise(item: str, times: int = 1) -> str:
    await work(item)
    await hf.wait_for(go, timeout=60)
    return "otherwise"


@app.workflow
async def opens(item: str, times: int = 1) -> str:
    return Path(item).read_text()


@app.workflow
async def hangs(item: str, times: int = 1) -> str:
    await asyncio.Event().wait()
    return item


@app.step(retry=hf.Retry(max_attempts=1))
async def breaks() -> None:
    raise ValueError("no luck")


@app.workflow
async def fails() -> None:
    await breaks()


@app.workflow
async def forgives() -> None:
    try:
        await breaks()
    except hf.StepFailed:
        return


async def recorded(*, closed: bool) -> tuple[Loaded, dict[str, object]]:
    """Return a run's history, and what an export of it writes."""
    async with app.open("memory://") as client:
        run = await client.start(order.bind("lamp"), id="o-1")
        async for event in run.events():
            if event.kind == "step.completed":
                break
        if closed:
            await run.signal(go, 5)
            await run.result()
        return await run.history(), document_of(await client.engine.export("o-1"))


async def test_an_open_run_leads_to_what_it_waits_for() -> None:
    history, document = await recorded(closed=False)
    done.clear()
    for given in (history, document):
        found = replay(order, given)
        assert (found.ended, found.result, found.steps) == (None, None, ())
        assert (found.timers, found.signals) == (("timer#1",), ("go",))
        assert str(found) == "waits for timer#1, signal go"
    assert done == []


async def test_a_closed_run_leads_to_its_result(tmp_path: Path) -> None:
    history, document = await recorded(closed=True)
    file = tmp_path / "o-1.json"
    file.write_text(json.dumps(document))
    for given in (history, document, file, str(file)):
        found = replay(order, given)
        assert (found.ended, found.result) == ("completed", "LAMP for 5")


async def test_code_that_does_not_fit_is_a_mismatch() -> None:
    history, _ = await recorded(closed=False)
    with pytest.raises(hf.ReplayMismatch, match="Event 2 is the result of step work#1"):
        replay(other, history)


async def test_another_end_is_a_mismatch() -> None:
    history, _ = await recorded(closed=True)
    told = 'the end of the run as completed with "LAMP for 5", and the code now ends as'
    with pytest.raises(hf.ReplayMismatch, match=told):
        replay(ends_otherwise, history)


async def test_a_failure_is_an_end_too() -> None:
    async with app.open("memory://") as client:
        run = await client.start(fails.bind())
        with pytest.raises(hf.RunFailed):
            await run.result()
        history = await run.history()
    assert replay(fails, history).ended == "failed"
    with pytest.raises(hf.ReplayMismatch, match=r"as failed with StepFailed.*ends as completed"):
        replay(forgives, history)


async def test_what_would_block_the_run_is_raised() -> None:
    history, _ = await recorded(closed=False)
    with pytest.raises(GuardViolation):
        replay(opens, history)
    with pytest.raises(BodyStuck):
        replay(hangs, history._replace(events=history.events[:1]))


def test_what_is_no_history_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "o-1.json"
    for text in ("{", "[]", '{"holdfast": "run"}'):
        file.write_text(text)
        with pytest.raises(InvalidExport):
            replay(order, file)
    with pytest.raises(InvalidExport, match="cannot be read"):
        replay(order, tmp_path / "nowhere.json")
