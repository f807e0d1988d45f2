"""Metrics: their names and labels are a promise, and only what is committed is counted."""

import asyncio
import re
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

import holdfast as hf
from holdfast.compose import open_client
from holdfast.sinks import prometheus
from holdfast.stores.memory import MemoryStore
from holdfast.testing import virtual
from tests.engine.places import until, within, worker_of

GOLDEN = Path(__file__).with_name("metrics.txt")
SETTINGS = hf.Settings(poll=0.05, paranoid=True)


def shop(app: hf.App) -> Any:
    @app.step(retry=hf.Retry(max_attempts=2, initial=2, jitter=False))
    async def charge(cents: int) -> int:
        await asyncio.sleep(0.2)
        if cents == 13 and hf.attempt() == 1:
            raise ConnectionError("the bank is away")
        if cents == 14:
            raise hf.NonRetryable("no")
        return cents

    @app.workflow
    async def checkout(cents: int) -> int:
        await hf.sleep(60)
        return await charge(cents)

    return checkout


def text_of(observer: hf.PrometheusObserver) -> str:
    return generate_latest(observer.registry).decode()


def test_names_labels_and_counts_are_as_told() -> None:
    app = hf.App("shop")
    checkout = shop(app)
    observer = hf.PrometheusObserver(CollectorRegistry())
    app.observe(observer)

    async def story(client: hf.Client) -> str:
        runs = [await client.start(checkout.bind(n), queue="tills") for n in (1, 13, 14)]
        for run in runs:
            await asyncio.wait([asyncio.ensure_future(run.result())])
        ended = await client.start(checkout.bind(2))
        await ended.terminate("enough")
        await client.start(checkout.bind(3), queue="tills")
        await asyncio.sleep(1)
        generate_latest(observer.registry)  # has the counts looked up
        await asyncio.sleep(10)
        return text_of(observer)

    told = virtual.run(app, story)
    lines = [each for each in told.splitlines() if "_created" not in each and "_bucket" not in each]
    # Series stand in the order in which they came up.
    assert sorted(lines) == sorted(GOLDEN.read_text().splitlines())
    assert (
        'holdfast_step_backoff_seconds_bucket{le="2.5",step="charge",workflow="checkout"}' in told
    )
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}", told), "no metric names a run"


async def test_a_replay_counts_nothing() -> None:
    app = hf.App("shop")
    go = hf.Signal("go", int)

    @app.step
    async def work() -> int:
        return 1

    @app.workflow
    async def waiter() -> int:
        return await work() + await hf.wait_for(go)

    observer = hf.PrometheusObserver(CollectorRegistry())
    app.observe(observer)
    store = MemoryStore()
    async with open_client(app, store, settings=SETTINGS) as client:
        run = await client.start(waiter.bind(), id="r")
        await until(
            lambda: counted(observer, "step_attempts", step="work", outcome="completed") == 1
        )
    async with open_client(app, store, settings=SETTINGS) as client:
        run = client.get("r")
        await run.signal(go, 2)
        await within(run.result())
    assert counted(observer, "step_attempts", step="work", outcome="completed") == 1
    assert counted(observer, "runs_started", queue="default") == 1
    assert counted(observer, "runs_closed", queue="default", status="completed") == 1


def counted(observer: hf.PrometheusObserver, name: str, **labels: str) -> float | None:
    labels = {"workflow": "waiter", **labels}
    return observer.registry.get_sample_value(f"holdfast_{name}_total", labels)


async def test_what_was_taken_over_stays_counted_when_its_worker_leaves() -> None:
    app = hf.App("shop")
    observer = hf.PrometheusObserver(CollectorRegistry())
    app.observe(observer)
    for _ in range(2):
        async with open_client(app, MemoryStore(), settings=SETTINGS) as client:
            worker_of(client).takeovers = 3
    assert observer.registry.get_sample_value("holdfast_lease_takeovers_total") == 6


async def test_a_scrape_over_http_sees_what_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prometheus, "FRESH", 0.0)
    app = hf.App("shop")
    checkout = shop(app)
    observer = hf.PrometheusObserver(CollectorRegistry())
    app.observe(observer)
    port, stop = observer.serve(0)
    settings = hf.Settings(queues=["served"])
    try:
        async with open_client(app, MemoryStore(), settings=settings) as client:
            await client.start(checkout.bind(1), queue="nobody's")
            told = await asyncio.to_thread(scraped, port)
        left = await asyncio.to_thread(scraped, port)
    finally:
        await asyncio.to_thread(stop)
    wanted = 'holdfast_runs_pending{queue="nobody\'s",workflow="checkout"} 1.0'
    assert wanted in told.splitlines()
    assert wanted not in left.splitlines()


def scraped(port: int) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def test_two_in_one_registry_are_refused_by_it() -> None:
    registry = CollectorRegistry()
    hf.PrometheusObserver(registry)
    with pytest.raises(ValueError, match="Duplicated timeseries"):
        hf.PrometheusObserver(registry)


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("prometheus_client", "prometheus_client.core"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(hf.MissingExtra, match=r"pip install 'holdfast\[prometheus\]'"):
        hf.PrometheusObserver()
