"""What waits in one store goes on in the other, as if it had never been elsewhere."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import cast

import pytest

import holdfast as hf
from holdfast.engines.local import LocalEngine
from holdfast.errors import MoveRefused, StoreMoved
from holdfast.hosts.mover import Mover, take_back
from holdfast.model.annotations import LogFilter
from holdfast.ports.inspection import InspectedStore
from tests.engine.places import until, within
from tests.moving import shop
from tests.moving.places import WAYS, Urls, examine, move, rows_of, sides


@pytest.fixture
def files(tmp_path: Path) -> Urls:
    return f"sqlite:///{tmp_path / 'a.db'}", f"sqlite:///{tmp_path / 'b.db'}"


@pytest.mark.parametrize("urls", [*WAYS, "sqlite-sqlite"], indirect=True)
async def test_runs_of_every_kind_end_where_they_were_moved_to(urls: Urls) -> None:
    source, target = urls
    await shop.fill(source)
    moved = await move(source, target)
    rows = await rows_of(target)
    assert rows == await rows_of(source)
    assert moved.rows == {name: len(found) for name, found in rows.items()}
    empty = {name for name, found in rows.items() if not found}
    assert empty <= {"progress"}
    lines = await shop.lines_of(source, "listening")
    assert lines == await shop.lines_of(target, "listening")
    assert await shop.finish(target) == shop.EXPECTED
    async with shop.opened(target, worker=False) as client:
        labels = await client.get("napping").labels()
        assert labels.tags == ("slow", "vip")
        assert labels.attributes == {"cents": 4900, "customer": "42", "new": True, "share": 0.1}


async def test_they_end_the_same_without_a_move(files: Urls) -> None:
    await shop.fill(files[0])
    assert await shop.finish(files[0]) == shop.EXPECTED


async def test_the_source_can_be_read_and_tells_writers_where_its_runs_went(full: Urls) -> None:
    source, target = full
    async with shop.opened(source, worker=False) as client:
        # Connected before, and still connected after.
        await move(source, target)
        assert (await client.get("done").describe()).status == "completed"
        assert await client.get("done").result() == "AWAKE"
        for write in (
            client.get("listening").signal(shop.word, "late"),
            client.start(shop.nap.bind(0.0), id="new"),
            client.get("napping").cancel(),
            client.get("approving").answer("ask#1", True),
            client.get("done").rerun("note#1"),
        ):
            with pytest.raises(StoreMoved) as refused:
                await write
            assert refused.value.role == "source"
            assert refused.value.place == refused.value.args[0].split()[5]
    async with shop.opened(source, worker=False) as client:
        assert (await client.get("done").describe()).status == "completed"
        with pytest.raises(StoreMoved):
            await client.queues.pause("narrow")
    with pytest.raises(StoreMoved, match="was moved to"):
        async with shop.opened(source):
            pytest.fail("a worker began where nothing can be written")


async def test_whoever_waits_for_a_run_is_told_where_it_went(full: Urls) -> None:
    source, target = full

    async def end_of(events: AsyncIterator[object]) -> None:
        async for _ in events:
            pass

    async with shop.opened(source, worker=False) as client:
        # Waits from before the move, as a process does that nobody stopped.
        engine = LocalEngine(client.engine.store, client.engine.ns, poll=0.01)
        waits = [
            asyncio.ensure_future(wait)
            for wait in (
                engine.closing("listening"),
                engine.closing("approving"),
                end_of(engine.events("listening", 0)),
                end_of(engine.logs(LogFilter("default", "listening"), follow=True)),
            )
        ]
        await move(source, target)
        for wait in waits:
            with pytest.raises(StoreMoved, match=target.rpartition("/")[2]):
                await within(wait)
        assert (await engine.closing("done")).kind == "run.completed"
        await engine.close()


async def test_whoever_waits_is_not_disturbed_by_a_move_that_may_be_taken_back(full: Urls) -> None:
    source, target = full
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(shop.opened(source, worker=False))
        with pytest.raises(KeyError):
            await move(source, target, tell=_stop)
        store = cast("InspectedStore", client.engine.store)
        assert await store.went_to() == ""
        async with sides(source, target) as (here, there):
            await take_back(here, there)
        await move(source, target, id="again")
        assert target.rpartition("/")[2] in await store.went_to()


def _stop(sight: object) -> None:
    raise KeyError


async def test_a_worker_that_is_there_is_named_and_nothing_is_changed(urls: Urls) -> None:
    source, target = urls
    async with shop.opened(source) as client:
        worker = client.engine.host.id

        async def listens() -> bool:
            async with sides(source) as [side]:
                return bool((await side.standing()).live)

        await until(listens)
        with pytest.raises(MoveRefused, match=worker):
            await move(source, target)
        run = await client.start(shop.nap.bind(0.0), id="nap")
        assert await run.result() == "AWAKE"
    assert (await move(source, target)).rows["runs"] == 1


async def test_a_target_that_holds_something_is_refused(urls: Urls) -> None:
    source, target = urls
    for url in urls:
        async with shop.opened(url, worker=False) as client:
            await client.start(shop.nap.bind(0.0), id="nap")
    with pytest.raises(MoveRefused, match="is not empty"):
        await move(source, target)
    async with shop.opened(source, worker=False) as client:
        await client.get("nap").cancel()


async def test_a_store_is_moved_once_and_goes_on_from_where_it_is(
    full: Urls, tmp_path: Path
) -> None:
    source, target = full
    third, fourth = f"sqlite:///{tmp_path / 'c.db'}", f"sqlite:///{tmp_path / 'd.db'}"
    first = await move(source, target)
    assert await move(source, target, id="another") == first
    with pytest.raises(MoveRefused, match="was moved to"):
        await move(source, third)
    assert (await move(target, third, id="on")).rows == first.rows
    with pytest.raises(MoveRefused, match="was moved to"):
        await move(target, fourth)
    assert await shop.finish(third) == shop.EXPECTED


async def test_a_move_is_taken_back_before_it_is_decided_and_not_after(full: Urls) -> None:
    source, target = full

    class Stopped(Exception):
        pass

    def stop(sight: object) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        await move(source, target, tell=stop)
    with pytest.raises(StoreMoved, match="being filled"):
        await shop.store_at(target).open()
    async with sides(source, target) as (here, there):
        await take_back(here, there)
        with pytest.raises(MoveRefused, match="nothing to take back"):
            await take_back(here, there)
    async with shop.opened(source, worker=False) as client:
        assert await client.get("listening").signal(shop.word, "c") is True
    await move(source, target, id="again")
    async with sides(source, target) as (here, there):
        with pytest.raises(MoveRefused, match="cannot be taken back"):
            await take_back(here, there)


async def test_an_unfinished_move_goes_to_no_other_place(files: Urls, tmp_path: Path) -> None:
    source, target = files
    await shop.fill(source)

    with pytest.raises(KeyError):
        await move(source, target, tell=_stop)
    other = f"sqlite:///{tmp_path / 'other.db'}"
    with pytest.raises(MoveRefused, match=r"is being moved to .*b\.db"):
        await move(source, other)
    async with shop.opened(other, worker=False) as client:
        await client.start(shop.nap.bind(0.0), id="nap")
    with pytest.raises(MoveRefused, match="beginning of a move"):
        await move(other, target, id="of-another")
    assert (await move(source, target)).id == "the-move"


async def test_an_empty_store_is_not_moved_into_itself(urls: Urls) -> None:
    with pytest.raises(MoveRefused, match="are one store"):
        await move(urls[0], urls[0])
    async with shop.opened(urls[0], worker=False) as client:
        await client.start(shop.nap.bind(0.0), id="nap")


async def test_what_clients_are_told_is_stored_while_a_move_begins_is_moved(full: Urls) -> None:
    source, target = full
    told: list[str] = []

    async def talk(client: hf.Client, name: str) -> StoreMoved:
        for n in itertools.count():
            try:
                await client.get("listening").signal(shop.word, "x", id=f"{name}-{n}")
            except StoreMoved as moved:
                return moved
            told.append(f"{name}-{n}")
        raise AssertionError("there are always more numbers")

    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(shop.opened(source, worker=False)) for _ in "ab"]
        talking = [asyncio.create_task(talk(*each)) for each in zip(clients, "ab", strict=True)]
        await until(lambda: len(told) > 20)
        await move(source, target)
        assert len({str(moved) for moved in await within(asyncio.gather(*talking))}) == 1
    async with sides(target) as [side]:
        inbox = (await side.dump()).inbox["default", "listening"]
    assert {message.id for message in inbox} >= set(told)


async def test_a_worker_that_came_between_keeps_out_of_what_was_moved(
    files: Urls, caplog: pytest.LogCaptureFixture
) -> None:
    source, target = files
    async with sides(source, target) as (here, there):
        mover = Mover(here, there, id="m", examine=examine)
        looked = await here.standing()
        async with shop.opened(source) as client:
            # The mover had looked before this one came: only what it holds stops a move.
            await mover._close_source(looked, await there.standing())
            with pytest.raises(StoreMoved):
                await client.start(shop.nap.bind(0.0), id="nap")
        assert (await mover.move()).rows["runs"] == 0
    assert "broke" not in caplog.text
