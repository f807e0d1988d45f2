"""What a host costs that has nothing to do: counted, and told in the docs."""

from pathlib import Path
from typing import cast

import holdfast as hf
from holdfast.hosts.worker import mending
from holdfast.stores.postgres import PostgresStore, bells
from holdfast.stores.sealed import SealedStore
from tests.engine.places import until

ROOT = Path(__file__).parents[2]
POLLS = 50


def a_minute(seconds: float) -> int:
    return round(60 / seconds)


def app_with_a_step() -> tuple[hf.App, hf.Workflow[[int], int]]:
    app = hf.App("idle")

    @app.step
    async def double(n: int) -> int:
        return 2 * n

    @app.workflow
    async def flow(n: int) -> int:
        return await double(n)

    return app, flow


def store_of(client: hf.Client) -> PostgresStore:
    store = cast("SealedStore", client.engine.store).inner
    assert isinstance(store, PostgresStore)
    return store


async def test_an_idle_host_asks_one_question_a_poll(postgres_store: str) -> None:
    app, flow = app_with_a_step()
    quick = hf.Settings(poll=0.02)
    async with (
        app.open(postgres_store, settings=quick) as worker,
        app.open(postgres_store, worker=False) as client,
    ):
        run = await client.start(flow.bind(21))
        assert await run.result() == 42
        host, caller = store_of(worker), store_of(client)
        await until(lambda: host._claims.statements > POLLS)  # whatever was left to do is done
        polls, asked, commits = host._claims.statements, host.statements, host.transactions
        called = caller.statements
        await until(lambda: host._claims.statements >= polls + POLLS)
        others = host.statements - asked - (host._claims.statements - polls)
        assert others <= 1, "the look for blocked runs, or for a dead link, may have come"
        assert host.transactions == commits, "it writes nothing"
        assert caller.statements - called <= 1, "who waits for nothing asks nothing"


def test_the_docs_tell_how_much_that_is_a_minute() -> None:
    poll, others = hf.Settings().poll, [mending.EVERY, bells.PROBE]
    number = a_minute(poll) + sum(map(a_minute, others))
    page = (ROOT / "docs" / "howto" / "postgres.md").read_text()
    assert f"{number} statements a minute" in page
    assert f"{a_minute(bells.PROBE)} statements a minute" in page, "of a client"
