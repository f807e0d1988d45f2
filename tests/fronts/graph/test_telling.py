"""What the helpers tell an observer where there is no run."""

import asyncio
import logging

import pytest

import holdfast as hf


class Seen:
    def __init__(self) -> None:
        self.events: list[hf.ExecutionEvent] = []

    async def on_event(self, event: hf.ExecutionEvent) -> None:
        self.events.append(event)

    def told(self) -> list[tuple[str, dict[str, object]]]:
        return [(each.type, dict(each.data)) for each in self.events]

    def types(self) -> list[str]:
        return [each.type for each in self.events]


async def double(n: int) -> int:
    if n == 13:
        raise ValueError("unlucky")
    return n * 2


async def test_items_side_by_side_are_told_with_their_workers() -> None:
    seen, one = Seen(), hf.ParallelConfig(max_workers=1, fail_fast=False)
    await hf.process_parallel([1, 13], double, one, observer=seen)
    assert seen.told() == [
        ("parallel.start", {"item_count": 2, "worker_count": 1, "fail_fast": False,
                            "has_progress_callback": False}),
        ("worker.start", {"worker_id": 0, "item_index": 0, "total_items": 2}),
        ("worker.complete", {"worker_id": 0, "item_index": 0, "total_items": 2, "error": False}),
        ("worker.start", {"worker_id": 0, "item_index": 1, "total_items": 2}),
        ("worker.complete", {"worker_id": 0, "item_index": 1, "total_items": 2, "error": True,
                             "error_message": "ValueError: unlucky"}),
        ("parallel.complete", {"items_processed": 1, "items_failed": 1, "error": False}),
    ]  # fmt: skip
    assert {each.source for each in seen.events} == {"process_parallel"}
    assert [each.id for each in seen.events] == [f"{n}.1" for n in range(1, 7)]


async def test_no_two_items_under_way_have_one_worker() -> None:
    seen, three = Seen(), hf.ParallelConfig(max_workers=3)
    await hf.process_parallel(range(9), double, three, observer=seen)
    busy: set[object] = set()
    for type, data in seen.told():
        if type == "worker.start":
            assert data["worker_id"] not in busy
            busy.add(data["worker_id"])
            assert busy <= {0, 1, 2}
        elif type == "worker.complete":
            busy.remove(data["worker_id"])
    assert busy == set()
    empty = Seen()
    await hf.process_parallel([], double, observer=empty)
    assert empty.types() == ["parallel.start", "parallel.complete"]


async def test_a_failure_is_told_once_with_what_was_done() -> None:
    seen = Seen()
    with pytest.raises(hf.ParallelError):
        await hf.process_parallel([13, 1], double, observer=seen)
    type, data = seen.told()[-1]
    assert (type, data["error"], data["items_failed"]) == ("parallel.complete", True, 1)
    assert seen.types().count("parallel.complete") == 1


async def test_a_chain_is_told_step_by_step() -> None:
    async def add(item: int, total: int) -> int:
        return total + await double(item)

    seen = Seen()
    await hf.process_chain([1, 2], 0, add, hf.ChainConfig(True), observer=seen)
    assert seen.told() == [
        ("chain.start", {"item_count": 2, "has_progress_callback": False,
                         "capture_intermediate": True}),
        ("step.start", {"step_index": 0, "total_steps": 2}),
        ("step.complete", {"step_index": 0, "total_steps": 2, "error": False}),
        ("step.start", {"step_index": 1, "total_steps": 2}),
        ("step.complete", {"step_index": 1, "total_steps": 2, "error": False}),
        ("chain.complete", {"steps_completed": 2, "error": False}),
    ]  # fmt: skip
    failed = Seen()
    with pytest.raises(hf.ChainError):
        await hf.process_chain([1, 13, 2], 0, add, observer=failed)
    assert failed.types()[-2:] == ["step.complete", "chain.complete"]
    assert failed.events[-2].data["error_message"] == "ValueError: unlucky"
    last = failed.events[-1].data
    assert (last["steps_completed"], last["error_type"]) == (1, "processor")


async def test_a_route_is_told_also_when_it_fails() -> None:
    seen, failed = Seen(), Seen()
    await hf.process_conditional(1, str, {"2": double}, default=double, observer=seen)
    assert seen.told() == [
        ("route.evaluate", {"route_count": 1}),
        ("route.select", {"route": "default", "has_default": True}),
        ("route.execute", {"route": "default", "error": False}),
    ]
    with pytest.raises(hf.ConditionalError):
        await hf.process_conditional(13, str, {"13": double}, observer=failed)
    assert failed.told()[-1] == (
        "route.execute", {"route": "13", "error": True, "error_message": "ValueError: unlucky"},
    )  # fmt: skip


async def test_an_observer_that_stands_still_holds_up_no_item() -> None:
    hold, done = asyncio.Event(), list[int]()

    class Slow(Seen):
        async def on_event(self, event: hf.ExecutionEvent) -> None:
            await hold.wait()
            await super().on_event(event)

    async def work(n: int) -> None:
        done.append(n)
        if len(done) == 3:
            hold.set()

    slow = Slow()
    await hf.process_parallel([1, 2, 3], work, hf.ParallelConfig(max_workers=1), observer=slow)
    assert slow.types()[-1] == "parallel.complete"


async def test_one_that_raises_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Breaks:
        async def on_event(self, event: hf.ExecutionEvent) -> None:
            raise ValueError("no ink")

    caplog.set_level(logging.WARNING, "holdfast.observers")
    found = await hf.process_parallel([1, 2], double, observer=Breaks())
    assert found.results == (2, 4)
    assert len(caplog.records) == 1


async def test_a_cancel_passes_and_is_told_to_nobody_who_waits() -> None:
    begun = asyncio.Event()

    async def forever(n: int) -> None:
        begun.set()
        await asyncio.Event().wait()

    seen = Seen()
    task = asyncio.create_task(hf.process_parallel([1], forever, observer=seen))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert seen.types()[:2] == ["parallel.start", "worker.start"]
