"""Tags, attributes, filters and cursors as a caller meets them."""

import pytest

import holdfast as hf
from tests.engine.places import Place, status_of


def flow_of(app: hf.App) -> hf.Workflow[[int], int]:
    @app.workflow
    async def returns(n: int) -> int:
        return n

    return returns


async def found(client: hf.Client, filter: str, **more: object) -> list[str]:
    listing = await client.list(filter=filter, **more)  # type: ignore[arg-type]
    return [run.id for run in listing.runs]


@pytest.mark.parametrize("worker", [True, False], ids=["worker", "client"])
async def test_runs_are_found_by_what_was_said_of_them(
    place: Place, app: hf.App, worker: bool
) -> None:
    flow = flow_of(app)
    async with place.open(app, worker=worker) as client:
        labels: dict[str, str | float | bool] = {
            "customer": "42",
            "amount": 12,
            "is_paid": True,
            "share": 0.5,
        }
        run = await client.start(flow.bind(1), id="a", tags=["vip", "new"], attributes=labels)
        await client.start(flow.bind(2), id="b", tags=["vip"])
        await client.start(flow.bind(3), id="c")
        assert await found(client, "tag:vip") == ["b", "a"]
        assert await found(client, "tag:vip amount>10") == ["a"]
        assert await found(client, "-tag:vip workflow:returns since:1h") == ["c"]
        assert await found(client, "tag:vip", workflow="nothing") == []
        assert await run.labels() == hf.Labels(("new", "vip"), labels)
        assert await client.labels("a", "b", "c") == {
            "a": hf.Labels(("new", "vip"), labels),
            "b": hf.Labels(("vip",)),
        }
        assert await client.labels() == {}


async def test_tags_are_no_part_of_what_a_run_is(place: Place, app: hf.App) -> None:
    flow = flow_of(app)
    async with place.open(app) as client:
        await client.start(flow.bind(1), id="a", tags=["first"])
        again = await client.start(flow.bind(1), id="a", tags=["second"], attributes={"n": 1})
        assert await again.labels() == hf.Labels(("first",))


async def test_a_start_with_a_bad_tag_stores_nothing(place: Place, app: hf.App) -> None:
    flow = flow_of(app)
    async with place.open(app) as client:
        with pytest.raises(hf.InvalidTag, match="at most 32"):
            await client.start(flow.bind(1), tags=[f"t{n}" for n in range(33)])
        with pytest.raises(hf.InvalidTag, match="attribute a"):
            await client.start(flow.bind(1), attributes={"a": None})  # type: ignore[dict-item]
        with pytest.raises(hf.InvalidTag, match="is no list"):
            await client.start(flow.bind(1), tags="vip")
        assert (await client.list()).runs == []


async def test_a_cursor_is_of_one_list_only(place: Place, app: hf.App) -> None:
    other = hf.App("engine-tests", namespace="other")
    flow = flow_of(app)
    async with place.open(app) as client, place.open(other) as stranger:
        for n in range(3):
            await client.start(flow.bind(n), id=f"run-{n}", tags=["x"])
        cursor = (await client.list(filter="tag:x", limit=2)).next
        assert cursor is not None
        assert await found(client, "tag:x", after=cursor) == ["run-0"]
        forged = [
            "", "nonsense", "é", cursor[:-1], cursor + "A", cursor.swapcase(), "A" * 5_000,
            "1767225600000000:run-1",
        ]  # fmt: skip
        for text in forged:
            with pytest.raises(hf.InvalidCursor, match="cursor"):
                await client.list(filter="tag:x", after=text)
        with pytest.raises(hf.InvalidCursor):
            await client.list(filter="tag:y", after=cursor)
        with pytest.raises(hf.InvalidCursor):
            await stranger.list(filter="tag:x", after=cursor)
        with pytest.raises(hf.InvalidFilter, match="column 1"):
            await client.list(filter="tagg:x")


async def test_the_reason_of_a_retry_is_kept(place: Place, app: hf.App) -> None:
    @app.workflow
    async def fails() -> None:
        raise ValueError("no")

    async with place.open(app) as client:
        run = await client.start(fails.bind())
        await status_of(run, "failed")
        await run.retry("mended")
        reopened = [event async for event in run.events() if event.kind == "run.reopened"]
        assert [event.payload for event in reopened] == [b'{"reason": "mended"}']
