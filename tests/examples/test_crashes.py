"""The examples survive a crash at every commit, on every store."""

import importlib.util
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import holdfast as hf
from holdfast.engines.local import LocalEngine
from holdfast.testing import Driven, crashtest
from holdfast.testing.crash_database import Database
from holdfast.testing.crash_world import Process
from holdfast.testing.crashing import Where
from holdfast.testing.inline import Elsewhere
from holdfast.testing.loop import LIFE

PROOF = [pytest.mark.proof, pytest.mark.timeout(600)]
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def example(name: str) -> ModuleType:
    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(
    params=["memory", *(pytest.param(each, marks=PROOF) for each in ("sqlite", "postgres"))]
)
def store(request: pytest.FixtureRequest) -> Iterator[Where]:
    if request.param != "postgres":
        yield request.param
        return
    with Elsewhere() as elsewhere:
        database = Database(request.getfixturevalue("migrated"), elsewhere)
        yield database
        database.close()


def test_checkout(store: Where) -> None:
    checkout: Any = example("checkout")

    async def approves(run: Driven) -> None:
        await run.sleep(3600)
        await run.signal(checkout.approved, True)

    bound = checkout.checkout.bind("piano", 490_000)
    assert crashtest(bound, approves, store=store).violations == []


def test_a_checkout_that_nobody_approves(store: Where) -> None:
    checkout: Any = example("checkout")
    assert crashtest(checkout.checkout.bind("organ", 990_000), store=store).violations == []


@pytest.mark.parametrize("item", ["lamp", "piano"])
def test_a_payment(store: Where, item: str) -> None:
    payment: Any = example("saga_payment")
    assert crashtest(payment.order.bind(item, 4_900), store=store).violations == []


def test_a_ledger(store: Where) -> None:
    ledger: Any = example("ledger")
    debts = [("ada", "bob", 2_500), ("bob", "eve", 12_000), ("ada", "eve", 90_000)]
    report = crashtest(ledger.settle.bind(debts), store=store)
    assert report.violations == []
    assert sum(point.call.method == "transact" for point in report.points) >= 30


def test_a_subscription_that_ends(store: Where) -> None:
    subscription: Any = example("subscription")

    async def leaves(run: Driven) -> None:
        await run.sleep(40 * 86_400)
        await run.signal(subscription.changes, "cancel")

    bound = subscription.subscription.bind("ada", "pro")
    assert crashtest(bound, leaves, store=store).violations == []


def test_a_download(store: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    download: Any = example("download")
    monkeypatch.chdir(tmp_path)
    book = tmp_path / "book.bin"
    with download.serving():
        report = crashtest(
            download.download.bind(book.name),
            before=lambda: book.unlink(missing_ok=True),
            effects=lambda: book.read_bytes() == download.BOOK,
            store=store,
        )
    assert report.violations == []


def test_a_fan_out(store: Where) -> None:
    fan_out: Any = example("fan_out")
    assert crashtest(fan_out.campaign.bind(20), store=store).violations == []


def test_a_fan_out_by_children(store: Where) -> None:
    fan_out: Any = example("fan_out")
    assert crashtest(fan_out.campaigns.bind(2, 3), store=store, app=fan_out.app).violations == []


def test_a_changed_order(store: Where) -> None:
    change: Any = example("change")

    async def pays(run: Driven) -> None:
        await run.signal(change.paid, 4_900)

    assert crashtest(change.order.bind("lamp"), pays, store=store).violations == []


def test_an_approval_by_the_boss(store: Where) -> None:
    approval: Any = example("approval")

    async def boss_answers(run: Driven) -> None:
        await run.sleep(5 * 3_600)
        assert await run.answer("approve#1", "yes", by="boss")
        assert not await run.answer("approve#1", "no", by="ada")

    bound = approval.purchase.bind("piano", 490_000)
    assert crashtest(bound, boss_answers, store=store).violations == []


def test_an_approval_that_nobody_gives(store: Where) -> None:
    approval: Any = example("approval")
    assert crashtest(approval.purchase.bind("organ", 990_000), store=store).violations == []


def test_a_job_that_calls_back(store: Where) -> None:
    job: Any = example("poll_job")

    async def calls_back(run: Driven) -> None:
        await run.sleep(90)
        await run.complete("submit#1", "cats.webm")

    bound = job.publish.bind("cats")
    assert crashtest(bound, calls_back, before=job.SERVICE.clear, store=store).violations == []


def test_a_job_that_is_asked(store: Where) -> None:
    job: Any = example("poll_job")
    assert crashtest(job.publish.bind("dogs"), store=store).violations == []


def test_a_transfer(store: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    account: Any = example("account")

    class Door:
        def __getitem__(self, _: int) -> hf.Client:
            """Return the client of the process that runs the step."""
            process = LIFE.get()
            assert isinstance(process, Process)
            assert process.worker is not None
            worker = process.worker
            return hf.Client(account.app, LocalEngine(worker.store, "default", worker))

    monkeypatch.setattr(account, "DOOR", Door())
    bound = account.transfer.bind("rent", "ada", "bob", 6_000)
    # A step that talks to the store may find it away, and be tried again.
    tried = crashtest(bound, app=account.app, store=store, loose=["book"])
    assert tried.violations == []


def test_a_cart(store: Where) -> None:
    cart: Any = example("cart")

    async def shops(run: Driven) -> None:
        for item in ("lamp", "desk", "moon"):
            with suppress(hf.UpdateRejected):
                await run.update(cart.Cart.add, item)
        await run.update(cart.Cart.check_out)

    bound = cart.app.entity_of(cart.Cart).bind("ada")
    assert crashtest(bound, shops, store=store).violations == []


def test_a_sync_with_secrets(store: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    api_key: Any = example("api_key")
    monkeypatch.setenv("SYNC_API_KEY", api_key.KEY)
    monkeypatch.setenv("SYNC_TOKEN", api_key.TOKEN)
    bound = api_key.sync.bind("ada")
    assert crashtest(bound, store=store, app=api_key.app).violations == []


def test_a_render_farm(store: Where) -> None:
    farm: Any = example("render_farm")
    bound = farm.produce.bind("up", 2, "eve")
    report = crashtest(bound, store=store, app=farm.app)
    assert report.violations == []
    assert any(point.call.method == "claim_jobs" for point in report.points)


def test_a_nightly_job(store: Where, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nightly: Any = example("nightly")
    monkeypatch.chdir(tmp_path)
    assert crashtest(nightly.nightly.bind(3), store=store, app=nightly.app).violations == []


def test_a_classification(store: Where, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(EXAMPLES / "classify")
    marking: Any = example("classify/marking")
    monkeypatch.setenv("MARKING_TOKEN", marking.model.TOKEN)
    bound = marking.graph.bind(marking.Paper("treaty"))
    assert crashtest(bound, store=store, app=marking.app).violations == []


def test_a_research_with_a_review(store: Where) -> None:
    research: Any = example("research")

    async def editor_answers(run: Driven) -> None:
        await run.sleep(60)
        assert await run.answer("review[1]/ask#1", "what of a storm?", by="ada")
        await run.sleep(7 * 86_400)
        assert await run.answer("review[2]/ask#1", "no", by="ada")

    bound = research.graph.bind(research.Paper("why are there tides?"))
    assert crashtest(bound, editor_answers, store=store, app=research.app).violations == []
