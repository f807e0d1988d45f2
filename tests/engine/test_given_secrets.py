"""Secrets that a run is given: in memory beside a worker, or encrypted; who lacks one waits."""

import asyncio
from typing import Any, cast

import pytest

import holdfast as hf
from holdfast.compose import open_client
from holdfast.testing import invariants
from tests.engine.places import FAST, Place, history_when, status_of, within

TOKEN = hf.Secret("hunter22-hunter22")
KEY, NEW = hf.KeyRing.new_key(), hf.KeyRing.new_key()


class Shop:
    """A workflow whose step needs the secret `token`, before and after a signal."""

    def __init__(self, provider: hf.SecretProvider | None = None) -> None:
        self.seen: list[str] = []
        self.app = app = hf.App("shop", secrets=provider)
        self.go = go = hf.Signal("go", int)

        @app.step(secrets=["token"])
        async def charge(cents: int) -> int:
            self.seen.append(hf.secret("token").reveal())
            return cents

        @app.workflow
        async def order(cents: int) -> int:
            first = await charge(cents)
            return first + await charge(await hf.wait_for(go))

        self.order = order


@pytest.fixture
def shop() -> Shop:
    return Shop()


def opened(place: Place, app: hf.App, key: str, id: str = "k1", worker: bool = True) -> Any:
    """Open the app with a key ring."""
    settings = hf.Settings(**cast("Any", FAST))
    return open_client(app, place.url, worker=worker, settings=settings, keys=hf.KeyRing({id: key}))


async def lacking(run: hf.RunHandle[Any]) -> hf.Run:
    """Return the row of a run once it says that it waits for a secret."""
    return (await history_when(run, lambda loaded: "secret token" in loaded.run.reason)).run


async def rows(client: hf.Client) -> Any:
    store: Any = client.engine.store
    return await invariants.dump(store)


async def test_the_worker_here_keeps_them_in_memory(place: Place, shop: Shop) -> None:
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5), secrets={"token": TOKEN})
        await status_of(run, "waiting")
        assert client.engine.vault.given == {run.id: {"token": TOKEN}}
        assert (await rows(client)).secrets == {}
        await run.signal(shop.go, 7)
        assert await within(run.result()) == 12
        assert shop.seen == [TOKEN.reveal()] * 2
        assert client.engine.vault.given == {}, "forgotten when the run has ended"


async def test_after_a_crash_the_run_waits_until_they_are_given_again(
    place: Place, shop: Shop
) -> None:
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        await status_of(run, "waiting")
    async with place.open(shop.app) as client:
        run = client.get("r", shop.order)
        await run.signal(shop.go, 7)
        row = await lacking(run)
        assert "`holdfast runs secret r token`" in row.reason
        await run.supply_secret("token", TOKEN)
        assert await within(run.result()) == 12


async def test_the_same_start_gives_them_again(place: Place, shop: Shop) -> None:
    async with place.open(shop.app) as client:
        await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        await status_of(client.get("r"), "waiting")
    async with place.open(shop.app) as client:
        await client.get("r").signal(shop.go, 7)
        run = await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        assert await within(run.result()) == 12
        await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        assert client.engine.vault.given == {}


async def test_a_start_of_other_work_changes_no_secret(place: Place, shop: Shop) -> None:
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        with pytest.raises(hf.RunConflict):
            await client.start(shop.order.bind(6), id="r", secrets={"token": hf.Secret("other!")})
        await run.signal(shop.go, 7)
        assert await within(run.result()) == 12
        assert shop.seen == [TOKEN.reveal()] * 2


async def test_without_keys_and_worker_they_are_refused(place: Place, shop: Shop) -> None:
    async with place.open(shop.app, worker=False) as client:
        with pytest.raises(hf.InvalidValue, match=r"no key ring .* and no worker") as raised:
            await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        assert "keys=hf.KeyRing(...)" in str(raised.value)
        assert "worker=True" in str(raised.value)
        assert (await client.list()).runs == []
        await client.start(shop.order.bind(5), id="r")
        with pytest.raises(hf.InvalidValue, match="supply_secret: secrets: this process has no"):
            await client.get("r").supply_secret("token", TOKEN)


async def test_with_keys_any_worker_can_use_them(place: Place, shop: Shop) -> None:
    async with opened(place, shop.app, KEY, worker=False) as client:
        await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        [sealed] = (await rows(client)).secrets["default", "r"]
        assert (sealed.name, sealed.key) == ("token", "k1")
        assert TOKEN.reveal().encode() not in sealed.sealed
    async with opened(place, shop.app, KEY) as client:
        run = client.get("r", shop.order)
        await run.signal(shop.go, 7)
        assert await within(run.result()) == 12
        assert shop.seen == [TOKEN.reveal()] * 2
        assert (await rows(client)).secrets == {}, "gone with the run"


async def test_a_worker_without_the_key_says_so_and_goes_on_with_a_new_secret(
    place: Place, shop: Shop
) -> None:
    async with place.open(shop.app, worker=False) as client:
        await client.start(shop.order.bind(5), id="r")
    async with opened(place, shop.app, KEY, worker=False) as client:
        await client.get("r").supply_secret("token", TOKEN)
    async with place.open(shop.app) as client:
        row = await status_of(client.get("r"), "waiting")
        assert "is encrypted with key k1, and this worker has no key ring" in row.reason
    async with opened(place, shop.app, NEW, "k2") as client:
        run = client.get("r", shop.order)
        await run.supply_secret("token", TOKEN)
        await run.signal(shop.go, 7)
        assert await within(run.result()) == 12


async def test_what_a_run_was_given_goes_before_the_provider(place: Place) -> None:
    shop = Shop(hf.CallableSecrets({"token": "of-the-app"}.get))
    async with place.open(shop.app) as client:
        one = await client.start(shop.order.bind(5), secrets={"token": TOKEN})
        two = await client.start(shop.order.bind(5))
        for run in (one, two):
            await run.signal(shop.go, 7)
            await within(run.result())
        assert sorted(shop.seen) == sorted([TOKEN.reveal(), "of-the-app"] * 2)


async def test_a_fork_needs_them_again(place: Place, shop: Shop) -> None:
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5), id="r", secrets={"token": TOKEN})
        await run.signal(shop.go, 7)
        await within(run.result())
        fork = await run.fork("charge#1", id="f")
        await fork.signal(shop.go, 7)
        assert "secret token is not here" in (await lacking(fork)).reason
        await fork.supply_secret("token", TOKEN)
        assert await within(fork.result()) == 12


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ({"token": "plain"}, r"secrets\['token'\]: str is no Secret"),
        ({"../x": TOKEN}, "secret name '../x'"),
        ([("token", TOKEN)], "list is no mapping"),
        ({f"s{n}": TOKEN for n in range(33)}, "33 secrets, and the limit is 32"),
        ({"token": hf.Secret("x" * 70_000)}, "more than 65,536 characters"),
    ],
)
async def test_what_is_no_secret_is_refused_and_not_shown(
    place: Place, shop: Shop, secrets: Any, words: str
) -> None:
    async with place.open(shop.app) as client:
        with pytest.raises(hf.HoldfastError, match=words) as raised:
            await client.start(shop.order.bind(5), secrets=secrets)
        assert "plain" not in str(raised.value)
        assert (await client.list()).runs == []


async def test_a_run_that_is_not_open_takes_none(place: Place, shop: Shop) -> None:
    async with place.open(shop.app) as client:
        with pytest.raises(hf.RunNotFound):
            await client.get("nobody").supply_secret("token", TOKEN)
        run = await client.start(shop.order.bind(5))
        await run.terminate()
        with pytest.raises(hf.RunClosed):
            await run.supply_secret("token", TOKEN)
        assert client.engine.vault.given == {}


async def test_what_is_supplied_while_it_is_looked_for_is_found_at_once(place: Place) -> None:
    looks, supplied = asyncio.Event(), asyncio.Event()

    async def slow(name: str) -> None:
        looks.set()
        await supplied.wait()

    shop = Shop(hf.CallableSecrets(slow))
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5))
        await run.signal(shop.go, 7)
        await within(looks.wait())
        await run.supply_secret("token", TOKEN)
        await history_when(run, lambda loaded: loaded.run.inbox_read == 2)
        supplied.set()
        assert await within(run.result()) == 12
