"""Spans: one for each run and attempt, with ids that follow from the run, in any process."""

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased

import holdfast as hf
from holdfast.compose import open_client
from holdfast.sinks import opentelemetry
from holdfast.stores.memory import MemoryStore
from tests.engine.places import status_of, until, within, worker_of

SETTINGS = hf.Settings(poll=0.05, paranoid=True)


class Traced:
    """An app whose runs are traced, and the spans that were written."""

    def __init__(self, *, messages: bool = False, **options: Any) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider(shutdown_on_exit=False, **options)
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.app = app = hf.App("traced")
        app.observe(hf.OpenTelemetryObserver(self.provider, messages=messages))
        self.go = go = hf.Signal("go", int)
        tracer = self.provider.get_tracer("user")

        @app.step(retry=hf.Retry(max_attempts=2, initial=0.001))
        async def charge(cents: int) -> int:
            with tracer.start_as_current_span("call the bank"):
                await asyncio.sleep(0)
            if cents == 13 and hf.attempt() == 1:
                raise ConnectionError("card 4711")
            return cents

        @app.step
        def plain(cents: int) -> int:
            with tracer.start_as_current_span("in a thread"):
                return cents

        @app.transaction
        def note(tx: hf.Transaction, cents: int) -> int:
            with tracer.start_as_current_span("in a transaction"):
                return cents

        @app.workflow
        async def checkout(cents: int) -> int:
            return await note(await plain(await charge(cents)))

        @app.workflow
        async def waiter() -> int:
            return await charge(1) + await hf.wait_for(go)

        @app.workflow
        async def parent() -> int:
            return await waiter()

        @app.workflow
        async def again(n: int) -> int:
            await charge(n)
            if n:
                hf.continue_as_new(again.bind(n - 1))
            return n

        self.checkout, self.waiter, self.parent, self.again = checkout, waiter, parent, again

    def spans(self) -> list[ReadableSpan]:
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.spans() if span.name == name]


def context_of(span: ReadableSpan) -> trace.SpanContext:
    context = span.get_span_context()
    assert context is not None
    return context


def parent_of(span: ReadableSpan, spans: Sequence[ReadableSpan]) -> str:
    """Return the name of the span above, which must be there."""
    if span.parent is None:
        return ""
    [found] = [each for each in spans if context_of(each).span_id == span.parent.span_id]
    return found.name


async def test_a_run_and_its_attempts_are_one_tree() -> None:
    traced = Traced()
    async with open_client(traced.app, MemoryStore(), settings=SETTINGS) as client:
        run = await client.start(traced.checkout.bind(13), id="order", queue="tills")
        await within(run.result())
    spans = traced.spans()
    tree = {(span.name, parent_of(span, spans)) for span in spans}
    assert tree == {
        ("run checkout", ""),
        ("step charge", "run checkout"),
        ("step plain", "run checkout"),
        ("call the bank", "step charge"),
        ("in a thread", "step plain"),
        ("step note", "run checkout"),
        ("in a transaction", "step note"),
    }
    assert len({context_of(span).trace_id for span in spans}) == 1
    first, second = traced.named("step charge")
    assert first.attributes is not None
    assert first.attributes["holdfast.step.attempt"] == 1
    assert first.attributes["holdfast.queue"] == "tills"
    assert first.attributes["holdfast.run.id"] == "order"
    assert second.attributes is not None
    assert second.attributes["holdfast.step.attempt"] == 2
    assert first.status.status_code is trace.StatusCode.ERROR
    assert first.status.description == "ConnectionError"
    assert [each.name for each in first.events] == ["exception"]
    assert "4711" not in "".join(span.to_json() for span in spans)
    [whole] = traced.named("run checkout")
    assert whole.attributes is not None
    assert whole.attributes["holdfast.run.status"] == "completed"
    assert whole.start_time is not None
    assert first.start_time is not None
    assert whole.start_time <= first.start_time


async def test_messages_are_written_when_asked_for() -> None:
    traced = Traced(messages=True)
    async with open_client(traced.app, MemoryStore(), settings=SETTINGS) as client:
        await within((await client.start(traced.checkout.bind(13))).result())
    first = traced.named("step charge")[0]
    [told] = first.events
    assert told.attributes is not None
    assert told.attributes["exception.message"] == "card 4711"
    assert "ConnectionError" in str(told.attributes["exception.stacktrace"])


async def test_another_process_goes_on_with_the_same_trace_and_replays_no_span() -> None:
    store, first, second = MemoryStore(), Traced(), Traced()
    async with open_client(first.app, store, settings=SETTINGS) as client:
        run = await client.start(first.waiter.bind(), id="long")
        await status_of(run, "waiting")
    async with open_client(second.app, store, settings=SETTINGS) as client:
        await client.get("long").signal(second.go, 1)
        await within(client.get("long").result())
    assert [span.name for span in first.spans()] == ["call the bank", "step charge"]
    assert [span.name for span in second.spans()] == ["run waiter"]
    [step], [whole] = first.named("step charge"), second.named("run waiter")
    assert step.parent is not None
    assert step.parent.span_id == context_of(whole).span_id
    assert context_of(step).trace_id == context_of(whole).trace_id
    assert whole.start_time is not None
    assert whole.end_time is not None
    assert step.start_time is not None
    assert whole.start_time <= step.start_time < whole.end_time


async def test_a_run_is_linked_to_its_starter_and_to_its_parent() -> None:
    traced = Traced()
    async with open_client(traced.app, MemoryStore(), settings=SETTINGS) as client:
        with traced.provider.get_tracer("web").start_as_current_span("POST /orders") as request:
            run = await client.start(traced.parent.bind(), id="p", attributes={"customer": "42"})
        await until(lambda: bool(traced.named("start child")))
        [child] = (await client.list(workflow="waiter")).runs
        await client.get(child.id).signal(traced.go, 1)
        await within(run.result())
        assert (await run.labels()).attributes["customer"] == "42"
    [above], [below] = traced.named("run parent"), traced.named("run waiter")
    [asked] = traced.named("start child")
    assert [link.context.span_id for link in above.links] == [request.get_span_context().span_id]
    assert [link.context.span_id for link in below.links] == [context_of(above).span_id]
    assert [link.context.span_id for link in asked.links] == [context_of(below).span_id]


async def test_each_part_of_a_run_that_continues_has_its_span() -> None:
    traced = Traced()
    async with open_client(traced.app, MemoryStore(), settings=SETTINGS) as client:
        await within((await client.start(traced.again.bind(2))).result())
    parts = traced.named("run again")
    told = [part.attributes and part.attributes["holdfast.run.status"] for part in parts]
    assert told == ["continued", "continued", "completed"]
    steps = traced.named("step charge")
    assert [step.parent and step.parent.span_id for step in steps] == [
        context_of(part).span_id for part in parts
    ]
    assert [part.start_time for part in parts][1:] == [part.end_time for part in parts][:-1]


async def test_a_trace_is_sampled_whole_or_not_at_all() -> None:
    traced = Traced(sampler=ParentBased(TraceIdRatioBased(0.5)))
    async with open_client(traced.app, MemoryStore(), settings=SETTINGS) as client:
        for number in range(20):
            await within((await client.start(traced.checkout.bind(1), id=f"r{number}")).result())
    spans = traced.spans()
    traces = {context_of(span).trace_id for span in spans}
    assert 0 < len(traces) < 20
    assert len(spans) == 7 * len(traces)


async def test_without_a_provider_nothing_is_written_and_runs_end() -> None:
    app = hf.App("untraced")

    @app.step
    async def one() -> int:
        return 1

    @app.workflow
    async def flow() -> int:
        return await one()

    app.observe(hf.OpenTelemetryObserver(trace.NoOpTracerProvider()))
    async with open_client(app, MemoryStore(), settings=SETTINGS) as client:
        assert await within((await client.start(flow.bind())).result()) == 1
        assert worker_of(client).observing is not None


def test_ids_follow_from_the_run() -> None:
    observer: Any = hf.OpenTelemetryObserver(trace.NoOpTracerProvider())
    name = opentelemetry.attempt_name(1, "charge#1", 2)
    context = observer._context("default", "order-42", name)
    assert f"{context.trace_id:032x}" == "200cc9540a64c20f1ca08d8ba2062ece"
    assert f"{context.span_id:016x}" == "334fb12a70b656c9"


def test_without_the_extra_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", None)
    with pytest.raises(hf.MissingExtra, match=r"pip install 'holdfast\[otel\]'"):
        hf.OpenTelemetryObserver()
