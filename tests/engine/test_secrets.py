"""Steps get the secrets they list, on every store, and nothing of them is written."""

import asyncio
from typing import Any

import pytest

import holdfast as hf
from holdfast.hosts.worker import needing
from tests.engine.places import Place, history_when, kinds, status_of, within

TOKEN = "hunter22-hunter22"


class Shop:
    """Steps that need the secret `token`, from a provider that a test fills."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.broken: Exception | None = None
        self.asked: list[str] = []
        self.seen: list[str] = []
        self.app = app = hf.App("shop", secrets=hf.CallableSecrets(self.look_up))

        @app.step(secrets=["token"], retry=hf.Retry(max_attempts=3, initial=0))
        async def charge(cents: int) -> int:
            token = hf.secret("token").reveal()
            self.seen.append(token)
            if cents == 0:
                raise ConnectionError(f"the bank refused {token}")
            return cents

        @app.step(secrets=["token"])
        def charge_sync(cents: int) -> int:
            self.seen.append(hf.secret("token").reveal())
            return cents

        @app.workflow
        async def order(cents: int) -> int:
            return await charge(cents)

        self.charge, self.charge_sync, self.order = charge, charge_sync, order

    async def look_up(self, name: str) -> str | None:
        self.asked.append(name)
        if self.broken is not None:
            raise self.broken
        return self.known.get(name)


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needing, "LOOK_AGAIN", 0.02)
    monkeypatch.setattr(needing, "AFTER_ERROR", 0.02)


async def test_a_step_gets_what_the_provider_has(place: Place, shop: Shop) -> None:
    shop.known["token"] = TOKEN
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5))
        assert await within(run.result()) == 5
        assert shop.seen == [TOKEN]
        assert await kinds(run) == ["run.started", "step.completed", "run.completed"]


async def test_a_sync_step_and_a_chunk_get_it_too(place: Place, shop: Shop) -> None:
    shop.known["token"] = TOKEN

    @shop.app.workflow
    async def many(cents: list[int]) -> list[int]:
        first = await shop.charge_sync(1)
        return [first, *await hf.map(shop.charge, cents, chunk=2)]

    async with place.open(shop.app) as client:
        run = await client.start(many.bind([2, 3, 4]))
        assert await within(run.result()) == [1, 2, 3, 4]
        assert shop.seen == [TOKEN] * 4


async def test_each_attempt_asks_anew_and_the_failure_is_masked(place: Place, shop: Shop) -> None:
    shop.known["token"] = TOKEN
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(0))
        with pytest.raises(hf.RunFailed, match=r"the bank refused \*\*\*") as raised:
            await within(run.result())
        assert TOKEN not in raised.value.traceback
        assert shop.asked == ["token"] * 3
        assert TOKEN not in repr(await run.history())


async def test_a_step_waits_for_a_secret_that_is_not_here(
    place: Place, shop: Shop, soon: None
) -> None:
    async with place.open(shop.app, keep=0) as client:
        run = await client.start(shop.order.bind(5))
        row = await status_of(run, "waiting")
        assert row.reason.startswith("secret token is not here, nor in CallableSecrets(")
        assert f", for charge#1: `holdfast runs secret {run.id} token`" in row.reason
        shop.known["token"] = TOKEN
        assert await within(run.result()) == 5
        assert await kinds(run) == ["run.started", "step.completed", "run.completed"]


async def test_a_provider_that_fails_is_asked_again_and_its_error_is_masked(
    place: Place, shop: Shop, soon: None
) -> None:
    shop.broken = ConnectionError("no vault at hunter22-hunter22")
    hf.Secret(TOKEN)
    async with place.open(shop.app, keep=0) as client:
        run = await client.start(shop.order.bind(5))
        row = await status_of(run, "waiting")
        assert "cannot be read: ConnectionError: no vault at ***" in row.reason
        shop.broken, shop.known["token"] = None, TOKEN
        assert await within(run.result()) == 5


async def test_a_run_without_a_secret_does_not_spin(place: Place, shop: Shop) -> None:
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5))
        row = await status_of(run, "waiting")
        assert row.wake_at is not None
        assert row.wake_at - row.updated_at > 50_000_000
        assert shop.asked == ["token"]


async def test_the_others_go_on_while_one_step_waits(place: Place, shop: Shop, soon: None) -> None:
    @shop.app.step
    async def plain() -> str:
        shop.known["token"] = TOKEN
        return "plain"

    @shop.app.workflow
    async def both() -> list[Any]:
        return list(await asyncio.gather(shop.charge(5), plain()))

    async with place.open(shop.app) as client:
        run = await client.start(both.bind())
        assert await within(run.result()) == [5, "plain"]


async def test_a_step_that_runs_at_most_once_has_not_begun_while_it_waits(
    place: Place, shop: Shop
) -> None:
    @shop.app.step(secrets=["token"], at_most_once=True)
    async def pay(cents: int) -> int:
        return cents

    @shop.app.workflow
    async def payment(cents: int) -> int:
        return await pay(cents)

    async with place.open(shop.app) as client:
        run = await client.start(payment.bind(5), id="p")
        await status_of(run, "waiting")
        events = (await run.history()).events
        assert [event.kind for event in events] == ["run.started"]
    shop.known["token"] = TOKEN


async def test_time_for_all_attempts_goes_on_while_a_secret_is_missing(
    place: Place, shop: Shop
) -> None:
    @shop.app.step(secrets=["token"], total_timeout=0.05)
    async def hurried() -> None: ...

    @shop.app.workflow
    async def flow() -> None:
        await hurried()

    async with place.open(shop.app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match="had no time left to begin"):
            await within(run.result())


async def test_a_cancel_ends_a_run_that_waits_for_a_secret(place: Place, shop: Shop) -> None:
    async with place.open(shop.app) as client:
        run = await client.start(shop.order.bind(5))
        await status_of(run, "waiting")
        await run.cancel()
        with pytest.raises(hf.RunCancelled):
            await within(run.result())


async def test_a_secret_that_the_step_does_not_list_is_refused(place: Place, shop: Shop) -> None:
    @shop.app.step(retry=hf.Retry(max_attempts=1))
    async def curious() -> str:
        return hf.secret("token").reveal()

    @shop.app.workflow
    async def flow() -> str:
        return await curious()

    async with place.open(shop.app) as client:
        run = await client.start(flow.bind())
        with pytest.raises(hf.RunFailed, match=r"curious#1 reads secret 'token', which it does"):
            await within(run.result())


async def test_a_result_that_holds_a_secret_is_refused_at_once(place: Place, shop: Shop) -> None:
    shop.known["token"] = TOKEN

    @shop.app.step(secrets=["token"])
    async def leaks(how: str) -> Any:
        secret = hf.secret("token")
        return {"plain": secret.reveal(), "object": [secret]}[how]

    @shop.app.workflow
    async def flow(how: str) -> Any:
        return await leaks(how)

    async with place.open(shop.app) as client:
        for how, path in (("plain", "result"), ("object", "result[0]")):
            run = await client.start(flow.bind(how))
            with pytest.raises(hf.RunFailed, match="SecretSerialisationError") as raised:
                await within(run.result())
            assert f"result of step leaks#1: {path}: " in raised.value.message.replace("\n", "")
            assert TOKEN not in repr(await run.history())


async def test_log_lines_and_heartbeats_hold_no_secret(place: Place, shop: Shop) -> None:
    shop.known["token"] = TOKEN

    @shop.app.step(secrets=["token"], retry=hf.Retry(max_attempts=1))
    async def talkative() -> str:
        token = hf.secret("token").reveal()
        hf.log.warning("logged in with %s", token, extra={"url": f"https://{token}@host"})
        try:
            hf.heartbeat({"token": token})
        except hf.SecretSerialisationError as error:
            return str(error)
        return "it was written"

    @shop.app.workflow
    async def flow() -> str:
        return await talkative()

    async with place.open(shop.app) as client:
        run = await client.start(flow.bind())
        assert "details.token: the text of a secret" in await within(run.result())
        lines = [line async for line in run.logs()]
        assert [line.message for line in lines] == ["logged in with ***"]
        assert lines[0].fields == b'{"url": "https://***@host"}'


async def test_what_a_caller_sends_holds_no_secret(place: Place, shop: Shop) -> None:
    hf.Secret(TOKEN)
    said = hf.Signal("said", str)

    @shop.app.workflow
    async def flow(text: str) -> str:
        return text + await hf.wait_for(said)

    async with place.open(shop.app) as client:
        with pytest.raises(hf.SecretSerialisationError, match=r"arguments of .*: text: the text"):
            flow.bind(TOKEN)
        run = await client.start(flow.bind("a"))
        with pytest.raises(hf.SecretSerialisationError):
            await run.signal(said, TOKEN)
        await run.signal(said, "b")
        assert await within(run.result()) == "ab"
        assert len((await history_when(run, lambda loaded: True)).events) == 3
