"""Spans for OpenTelemetry, made of committed events.

A run is a trace of its own, whose id follows from the run's: whichever process goes on after a
crash goes on with the same trace, and what is told twice is one span. A span of a step has an id
that is known before it begins, so spans made inside the step stand below it; the step's own is
written when its end is stored. The span of the run, above all, is written when the run is closed.

A run may live for months and its starter for a moment, so they are two traces, with a link: the
starter's context is kept as the attribute `traceparent` of the run.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from hashlib import blake2b
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import MissingExtra, StoreError
from holdfast.model.events import BEGINNINGS
from holdfast.model.family import parent_in, started_id
from holdfast.model.observed import ObservedEvent
from holdfast.model.release import RELEASE
from holdfast.ports.observer import Source

if TYPE_CHECKING:
    from opentelemetry.trace import Link, Span, SpanContext, Tracer, TracerProvider

TRACEPARENT = "traceparent"
"""The attribute of a run that holds the context of who started it."""
REMEMBERED = 10_000
"""Runs of which it is known when they began."""

ATTEMPTS = frozenset({"step.completed", "step.failed", "step.retrying"})
FAILED = frozenset({"failed", "timed_out", "compensation_failed", "terminated"})


class _Begun(NamedTuple):
    """When the present generation of a run began, and which run started it, if one did."""

    at: int
    parent: str = ""


class OpenTelemetryObserver:
    """Writes a span for each run and each attempt of a step, with a tracer of this provider.

    Needs the extra `otel`. Of errors only the type is written, because their message may quote a
    payload; with `messages`, that and the traceback are added.
    """

    def __init__(
        self, tracer_provider: TracerProvider | None = None, *, messages: bool = False
    ) -> None:
        self._trace = _api()
        self._provider, self.messages = tracer_provider, messages
        self._begun: OrderedDict[tuple[str, str], _Begun] = OrderedDict()
        self._sources: list[Source] = []

    # --- what the worker and the client call

    async def on_event(self, event: ObservedEvent) -> None:
        """Write the span that ends with it, if one does."""
        if event.kind in ATTEMPTS:
            self._write_attempt(event)
        elif event.kind == "child.started":
            self._write_child(event)
        elif event.kind == "run.started":
            self._remember(event, _Begun(event.at, parent_in(event.key)))
        elif event.kind == "run.continued":
            await self._write_run(event, event.event.generation - 1, "continued")
            known = self._begun.get((event.namespace, event.run), _Begun(0))
            self._remember(event, known._replace(at=event.at))
        elif event.kind in BEGINNINGS:
            self._begun.pop((event.namespace, event.run), None)
        elif event.closes:
            status = event.kind.removeprefix("run.")
            await self._write_run(event, event.event.generation, status)
            self._begun.pop((event.namespace, event.run), None)

    def follow(self, source: Source) -> Callable[[], None]:
        """Read there how runs began that were begun elsewhere."""
        self._sources.append(source)
        return lambda: self._sources.remove(source)

    def enter_step(self, ns: str, run: str, generation: int, key: str, number: int) -> None:
        """Have what is traced inside an attempt stand below its span."""
        context = self._context(ns, run, attempt_name(generation, key, number))
        import_module("opentelemetry.context").attach(self._above(context))

    def carry(self) -> Mapping[str, str]:
        """Return the attributes that take the present context along with a start."""
        carried: dict[str, str] = {}
        _propagator().inject(carried)
        return {TRACEPARENT: carried[TRACEPARENT]} if TRACEPARENT in carried else {}

    # --- spans

    def _write_attempt(self, event: ObservedEvent) -> None:
        attempt, generation = event.attempt, event.event.generation
        name = attempt_name(generation, event.key, attempt)
        attributes: dict[str, str | int] = {
            "holdfast.step.name": event.step, "holdfast.step.key": event.key,
            "holdfast.step.attempt": attempt,
        }  # fmt: skip
        if event.cached:
            attributes["holdfast.step.cached"] = True
        began = event.at - (event.event.ran_for or 0)
        with self._span(f"step {event.step}", event, began, name, segment(generation)) as span:
            span.set_attributes(attributes)
            if event.retry_at is not None:
                span.set_attribute("holdfast.step.retry_at", event.retry_at / 1e6)
            self._tell_failure(span, event)

    def _write_child(self, event: ObservedEvent) -> None:
        child, generation = started_id(event.event), event.event.generation
        name = attempt_name(generation, event.key, 1)
        link = self._trace.Link(self._context(event.namespace, child, segment(1)))
        with self._span("start child", event, event.at, name, segment(generation), [link]) as span:
            span.set_attribute("holdfast.child.id", child)

    async def _write_run(self, event: ObservedEvent, generation: int, status: str) -> None:
        """Write the span of a run, or of a part of it that ended before the run did."""
        begun = await self._began(event, generation)
        links = await self._links(event, begun)
        name = segment(generation)
        with self._span(f"run {event.workflow}", event, begun.at, name, "", links) as span:
            span.set_attribute("holdfast.run.status", status)
            span.set_attribute("holdfast.run.generation", generation)
            if status in FAILED:
                self._tell_failure(span, event, status)

    async def _links(self, event: ObservedEvent, begun: _Begun) -> list[Link]:
        """Return the links of a run: to its parent, and to who started it."""
        links: list[Link] = []
        if begun.parent:
            links.append(self._trace.Link(self._context(event.namespace, begun.parent, segment(1))))
        for source in self._sources[:1]:
            with suppress(StoreError):
                carried = (await source.labels(event.run)).attributes.get(TRACEPARENT)
                context = _propagator().extract({TRACEPARENT: str(carried)})
                starter = self._trace.get_current_span(context).get_span_context()
                links += [self._trace.Link(starter)] if starter.is_valid else []
        return links

    async def _began(self, event: ObservedEvent, generation: int) -> _Begun:
        known = self._begun.get((event.namespace, event.run))
        if known is not None:
            return known
        history: Sequence[ObservedEvent] = ()
        for source in self._sources[:1]:
            try:
                history = await source.history(event.run, 0, {}) or ()
            except StoreError:
                break
        began = event.started_at
        for each in history:
            if each.kind in BEGINNINGS and each.event.generation == generation:
                began = each.at
        parents = [parent_in(each.key) for each in history if each.kind == "run.started"]
        return _Begun(began, *parents[:1])

    def _remember(self, event: ObservedEvent, begun: _Begun) -> None:
        self._begun[event.namespace, event.run] = begun
        if len(self._begun) > REMEMBERED:
            self._begun.popitem(last=False)

    def _tell_failure(self, span: Span, event: ObservedEvent, status: str = "") -> None:
        failure = event.failure
        if not failure.type and not status:
            return
        told = failure.type or status
        fields = {"exception.type": told}
        if self.messages:
            fields |= {"exception.message": failure.message}
            if failure.traceback:
                fields["exception.stacktrace"] = failure.traceback
            told = f"{told}: {failure.message}" if failure.message else told
        if failure.type:
            span.add_event("exception", fields, event.at * 1_000)
        span.set_status(self._trace.StatusCode.ERROR, told)

    @contextmanager
    def _span(
        self,
        title: str,
        event: ObservedEvent,
        began: int,
        name: str,
        above: str,
        links: Sequence[Link] = (),
    ) -> Generator[Span]:
        """Give a span of a run's trace, from `began` to the event, named by what it is of."""
        ns, run = event.namespace, event.run
        context = self._context(ns, run, name)
        parent = self._above(self._context(ns, run, above) if above else None)
        tracer = self._tracer()
        with _numbered(tracer, context):
            span = tracer.start_span(title, parent, links=links, start_time=began * 1_000)
        span.set_attributes({
            "holdfast.run.id": run, "holdfast.workflow": event.workflow,
            "holdfast.workflow.version": event.version, "holdfast.queue": event.queue,
            "holdfast.namespace": ns,
        })  # fmt: skip
        try:
            yield span
        finally:
            span.end(event.at * 1_000)

    def _context(self, ns: str, run: str, name: str) -> SpanContext:
        trace = _number(16, ns, run)
        flags = self._trace.TraceFlags(1 if self._is_sampled(trace) else 0)
        number = _number(8, ns, run, name)
        context: SpanContext = self._trace.SpanContext(trace, number, True, flags)
        return context

    def _above(self, context: SpanContext | None) -> Any:
        """Return a context in which new spans stand below that one; below none, without it."""
        span = self._trace.INVALID_SPAN
        if context is not None:
            span = self._trace.NonRecordingSpan(context)
        return self._trace.set_span_in_context(span)

    def _is_sampled(self, trace: int) -> bool:
        """Tell what the sampler says of a trace, which every process must say alike."""
        sampler: Any = getattr(self._tracer(), "sampler", None)
        if sampler is None:
            return True
        return bool(sampler.should_sample(None, trace, "run").decision.is_sampled())

    def _tracer(self) -> Tracer:
        tracer: Tracer = self._trace.get_tracer("holdfast", RELEASE, self._provider)
        return tracer


def segment(generation: int) -> str:
    """Return the name of the span of a run's generation."""
    return f"run@{generation}"


def attempt_name(generation: int, key: str, number: int) -> str:
    """Return the name of the span of an attempt: the same before it begins and after it ended."""
    return f"{generation}/{key}/{number}"


def _number(size: int, *names: str) -> int:
    """Return an id that follows from names; never 0, which stands for none."""
    told = "\0".join(names).encode()
    return int.from_bytes(blake2b(told, digest_size=size).digest(), "big") or 1


FOLLOWING: ContextVar[SpanContext | None] = ContextVar("following", default=None)
"""What the next span of this thread must be."""


class _Ids:
    """Gives the ids that a span must have, and else those of the provider."""

    def __init__(self, others: Any) -> None:
        self.others = others

    def generate_span_id(self) -> int:
        """Return the id of the next span."""
        context = FOLLOWING.get()
        return int(self.others.generate_span_id()) if context is None else context.span_id

    def generate_trace_id(self) -> int:
        """Return the id of the next trace."""
        context = FOLLOWING.get()
        return int(self.others.generate_trace_id()) if context is None else context.trace_id

    def is_trace_id_random(self) -> bool:
        """Tell that ids follow from names; they are spread as random ones are."""
        return False


@contextmanager
def _numbered(tracer: Any, context: SpanContext) -> Generator[None]:
    """Have the next span of this tracer get the ids of `context`; without the SDK, any."""
    ids = getattr(tracer, "id_generator", None)
    if ids is not None and not isinstance(ids, _Ids):
        tracer.id_generator = _Ids(ids)
    token = FOLLOWING.set(context)
    try:
        yield
    finally:
        FOLLOWING.reset(token)


def _api() -> Any:
    try:
        return import_module("opentelemetry.trace")
    except ModuleNotFoundError as error:
        raise MissingExtra(what="OpenTelemetryObserver", extra="otel") from error


def _propagator() -> Any:
    module = import_module("opentelemetry.trace.propagation.tracecontext")
    return module.TraceContextTextMapPropagator()
