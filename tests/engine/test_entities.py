"""Entities: one run a key, one update at a time, and a state that outlives everything."""

import asyncio
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest

import holdfast as hf
from holdfast.model.run import SINCE_START
from tests.engine.places import Place, history_when, status_of, until, within


class Shop:
    """An entity with every kind of method, and steps that can be held up."""

    def __init__(self, app: hf.App, **options: Any) -> None:
        self.calls: list[str] = []
        self.release = asyncio.Event()
        self.release.set()

        @app.step
        async def price(item: str) -> int:
            self.calls.append(f"{item} begins")
            await self.release.wait()
            self.calls.append(f"{item} ends")
            if item == "bomb":
                raise hf.NonRetryable("not for sale")
            return len(item)

        @app.entity(**options)
        @dataclass
        class Cart:
            key: str
            items: dict[str, int] = field(default_factory=dict)
            cents: int = 0

            @hf.update
            async def add(self, item: str, n: int = 1) -> int:
                self.items[item] = self.items.get(item, 0) + n
                self.cents += n * await price(item)
                return self.items[item]

            @add.validator
            def _has_room(self, item: str, n: int = 1) -> None:
                if n < 1 or sum(self.items.values()) + n > 9:
                    raise ValueError(f"no room for {n} {item}")

            @hf.update
            async def twice(self, item: str) -> int:
                await self.add(item)
                return await self.add(item)

            @hf.update
            async def check_out(self) -> str:
                hf.end_entity()
                return f"{self.key} pays {self.cents}"

            @hf.update
            async def check_out_in_vain(self) -> None:
                hf.end_entity()
                raise ValueError("no money")

            @hf.query
            def count(self, item: str = "") -> int:
                return self.items.get(item, 0) if item else sum(self.items.values())

            @hf.query
            def steal(self) -> int:
                self.items.clear()
                return 0

        self.Cart: Any = Cart


async def test_an_entity_begins_with_its_first_update(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        assert await cart.query(shop.Cart.count) == 0  # nobody has sent it anything yet
        assert await within(cart.update(shop.Cart.add, "lamp", 2)) == 2
        assert await within(cart.update(shop.Cart.add, "lamp", n=1)) == 3
        assert await within(cart.update(shop.Cart.twice, "desk")) == 2
        assert await cart.query(shop.Cart.count) == 5
        assert await cart.query(shop.Cart.count, "desk") == 2
        other = client.entity(shop.Cart, "bob")
        assert await within(other.update(shop.Cart.add, "lamp")) == 1
        assert (cart.id, other.id) == ("Cart:ada", "Cart:bob")
        assert [run.id for run in (await client.list()).runs] == ["Cart:bob", "Cart:ada"]


async def test_it_lives_on_in_another_process(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        await within(client.entity(shop.Cart, "ada").update(shop.Cart.add, "lamp", 2))
    async with place.open(app, worker=False) as client:
        assert await client.entity(shop.Cart, "ada").query(shop.Cart.count) == 2
    async with place.open(app) as client:
        assert await within(client.entity(shop.Cart, "ada").update(shop.Cart.add, "lamp")) == 3
    assert shop.calls == ["lamp begins", "lamp ends"] * 2


async def test_updates_run_one_at_a_time_in_the_order_in_which_they_came(
    place: Place, app: hf.App
) -> None:
    shop = Shop(app)
    shop.release.clear()
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        tasks = []
        for n, item in enumerate(("a", "b", "c"), start=1):
            tasks.append(asyncio.create_task(cart.options(id=item).update(shop.Cart.add, item)))
            await until(partial(_has_got, client, n))
        await until(lambda: shop.calls == ["a begins"])
        assert await cart.query(shop.Cart.count) == 0  # what is under way is not seen
        shop.release.set()
        assert await within(asyncio.gather(*tasks)) == [1, 1, 1]
        assert await cart.query(shop.Cart.count) == 3
    assert shop.calls == ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]


async def _has_got(client: hf.Client, n: int) -> bool:
    try:
        return (await client.get("Cart:ada").describe()).inbox_seq == n
    except hf.RunNotFound:
        return False


async def test_a_validator_sees_the_state_that_the_update_would_find(
    place: Place, app: hf.App
) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        with pytest.raises(hf.UpdateRejected, match="no room for 0 lamp"):
            await within(cart.update(shop.Cart.add, "lamp", 0))
        both = [cart.update(shop.Cart.add, item, 5) for item in ("lamp", "desk")]
        outcomes = await within(asyncio.gather(*both, return_exceptions=True))
        assert outcomes[0] == 5
        assert isinstance(outcomes[1], hf.UpdateRejected)
        assert await cart.query(shop.Cart.count) == 5


async def test_a_method_that_fails_has_changed_nothing(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        await within(cart.update(shop.Cart.add, "lamp"))
        with pytest.raises(hf.UpdateFailed, match="not for sale"):
            await within(cart.update(shop.Cart.add, "bomb"))
        assert await cart.query(shop.Cart.count, "bomb") == 0
        assert await within(cart.update(shop.Cart.add, "lamp")) == 2


async def test_a_query_that_changes_the_state_is_refused(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        bob = client.entity(shop.Cart, "bob")
        await within(cart.update(shop.Cart.add, "lamp"))
        await within(bob.update(shop.Cart.add, "lamp"))
        for each in (cart, bob):
            with pytest.raises(hf.QueryFailed, match="query 'steal' changed the state"):
                await each.query(shop.Cart.steal)
        assert await cart.query(shop.Cart.count) == 1


async def test_an_update_with_an_id_counts_once(place: Place, app: hf.App) -> None:
    shop = Shop(app, continue_after=4)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        assert await within(cart.options(id="first").update(shop.Cart.add, "lamp")) == 1
        for _ in range(3):
            await within(cart.update(shop.Cart.add, "desk"))
        assert (await client.get(cart.id).describe()).generation > 1
        assert await within(cart.options(id="first").update(shop.Cart.add, "lamp")) == 1
        assert await cart.query(shop.Cart.count, "lamp") == 1


async def test_it_continues_as_new_by_itself_and_loses_nothing(place: Place, app: hf.App) -> None:
    shop = Shop(app, continue_after=6)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        updates = [cart.options(id=str(n)).update(shop.Cart.add, f"item {n}") for n in range(9)]
        assert await within(asyncio.gather(*updates)) == [1] * 9
        assert await cart.query(shop.Cart.count) == 9
        run = client.get(cart.id)
        row = await status_of(run, "waiting")
        loaded = await client.engine.store.load("default", cart.id, SINCE_START)
    assert row.generation > 3
    assert loaded is not None
    assert len(loaded.events) < 9
    begun = [call for call in shop.calls if call.endswith("begins")]
    assert begun == [f"item {n} begins" for n in range(9)]


async def test_an_entity_ends_when_a_method_says_so(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        await within(cart.update(shop.Cart.add, "lamp"))
        with pytest.raises(hf.UpdateFailed, match="no money"):
            await within(cart.update(shop.Cart.check_out_in_vain))
        assert await within(cart.options(id="over").update(shop.Cart.check_out)) == "ada pays 4"
        ended = await within(client.get(cart.id).result())
        assert (ended.key, ended.items, ended.cents) == ("ada", {"lamp": 1}, 4)
        with pytest.raises(hf.RunClosed):
            await within(cart.update(shop.Cart.add, "lamp"))
        assert await within(cart.options(id="over").update(shop.Cart.check_out)) == "ada pays 4"
        assert await cart.query(shop.Cart.count) == 1


async def test_nothing_but_the_fields_outlives_an_update(place: Place, app: hf.App) -> None:
    @app.entity
    @dataclass
    class Forgetful:
        n: int = 0

        @hf.update
        async def remember(self) -> int:
            self.n += 1
            seen: int = getattr(self, "extra", 0)
            self.extra = seen + 1
            return seen

    async with place.open(app) as client:
        one = client.entity(Forgetful, "x")
        assert [await within(one.update(Forgetful.remember)) for _ in range(3)] == [0, 0, 0]


async def test_a_state_that_cannot_be_kept_fails_the_update(place: Place, app: hf.App) -> None:
    @app.entity
    @dataclass
    class Bag:
        things: list[int] = field(default_factory=list)

        @hf.update
        async def put(self, thing: Any) -> int:
            self.things.append(thing)
            return len(self.things)

    async with place.open(app) as client:
        bag = client.entity(Bag, "x")
        with pytest.raises(hf.UpdateFailed, match="things"):
            await within(bag.update(Bag.put, "no number"))
        assert await within(bag.update(Bag.put, 1)) == 1


async def test_a_cancelled_entity_ends(place: Place, app: hf.App) -> None:
    shop = Shop(app)
    async with place.open(app) as client:
        cart = client.entity(shop.Cart, "ada")
        await within(cart.update(shop.Cart.add, "lamp"))
        run = client.get(cart.id)
        await run.cancel()
        await status_of(run, "cancelled")
        await history_when(run, lambda loaded: loaded.run.status == "cancelled")


def test_sync_code_talks_to_entities(app: hf.App) -> None:
    shop = Shop(app)
    with app.open_sync("memory://") as client:
        cart = client.entity(shop.Cart, "ada")
        assert cart.update(shop.Cart.add, "lamp") == 1
        assert cart.options(id="x").update(shop.Cart.add, "lamp") == 2
        assert cart.query(shop.Cart.count) == 2
        assert (cart.id, cart.key) == ("Cart:ada", "ada")
