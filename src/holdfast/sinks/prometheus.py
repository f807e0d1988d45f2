"""Metrics for Prometheus: committed events, counted where they were committed.

What happens is counted as it is told: a replay tells nothing, so it counts nothing. What is (how
much waits, how many runs are in hand) is looked up when somebody asks, a few seconds apart at most.
No metric has the id of a run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import TimeoutError as TooLate
from importlib import import_module
from typing import TYPE_CHECKING, Any

from holdfast.errors import MissingExtra, StoreError
from holdfast.model.backlog import Backlog
from holdfast.model.observed import ObservedEvent
from holdfast.ports.observer import Source

if TYPE_CHECKING:
    import prometheus_client as prometheus
    from prometheus_client.core import Metric

FRESH = 5.0
"""Seconds for which a count of what waits is good enough."""
PATIENCE = 5.0
"""Seconds that a scrape waits for the store."""

SHORT = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1_800)
LONG = (0.01, 0.1, 1, 10, 60, 300, 1_800, 3_600, 6 * 3_600, 86_400, 7 * 86_400, 30 * 86_400)

OUTCOMES = {
    "step.completed": "completed", "step.failed": "failed", "step.retrying": "retrying",
    "step.deferred": "deferred",
}  # fmt: skip

FACTS = {
    "runs": ("holdfast_runs_held", "Runs in the hands of this worker."),
    "steps": ("holdfast_steps_running", "Steps that run in this worker."),
}
COUNTS = {
    "takeovers": ("holdfast_lease_takeovers", "Runs taken from workers that were gone."),
    "refusals": ("holdfast_commits_refused", "Turns refused because the run went elsewhere."),
}


class PrometheusObserver:
    """Counts what is committed, in a registry of `prometheus_client`, the usual one by default.

    Needs the extra `prometheus`. One for each registry.
    """

    def __init__(self, registry: prometheus.CollectorRegistry | None = None) -> None:
        client = _client()
        self.registry = client.REGISTRY if registry is None else registry
        given: dict[str, Any] = {"registry": self.registry}
        self._started = client.Counter(
            "holdfast_runs_started", "Runs started.", ["workflow", "queue"], **given
        )
        self._closed = client.Counter(
            "holdfast_runs_closed", "Runs closed.", ["workflow", "queue", "status"], **given
        )
        self._duration = client.Histogram(
            "holdfast_run_duration_seconds", "From the start of a run to its end.",
            ["workflow", "status"], buckets=LONG, **given,
        )  # fmt: skip
        self._attempts = client.Counter(
            "holdfast_step_attempts", "Attempts of steps that ended.",
            ["workflow", "step", "outcome"], **given,
        )  # fmt: skip
        self._took = client.Histogram(
            "holdfast_step_duration_seconds", "How long an attempt ran.",
            ["workflow", "step"], buckets=SHORT, **given,
        )  # fmt: skip
        self._backoff = client.Histogram(
            "holdfast_step_backoff_seconds", "From a failed attempt to when the next may begin.",
            ["workflow", "step"], buckets=SHORT, **given,
        )  # fmt: skip
        self._lateness = client.Histogram(
            "holdfast_timer_lateness_seconds", "From when a timer was due to when it fired.",
            ["workflow"], buckets=SHORT, **given,
        )  # fmt: skip
        self._latency = client.Histogram(
            "holdfast_commit_duration_seconds", "One turn and its commit.", buckets=SHORT, **given
        )
        self._now = _Now()
        self.registry.register(self._now)

    async def on_event(self, event: ObservedEvent) -> None:
        """Count it."""
        kind, workflow = event.kind, event.workflow
        if event.latency is not None:
            self._latency.observe(event.latency / 1e6)
        if (outcome := OUTCOMES.get(kind)) is not None:
            self._count_attempt(event, "cached" if event.cached else outcome)
        elif kind == "run.started":
            self._started.labels(workflow, event.queue).inc()
        elif event.due is not None:
            self._lateness.labels(workflow).observe(max(event.at - event.due, 0) / 1e6)
        elif event.closes:
            status = kind.partition(".")[2]
            self._closed.labels(workflow, event.queue, status).inc()
            took = max(event.at - event.started_at, 0) / 1e6
            self._duration.labels(workflow, status).observe(took)

    def _count_attempt(self, event: ObservedEvent, outcome: str) -> None:
        workflow, step = event.workflow, event.step
        self._attempts.labels(workflow, step, outcome).inc()
        if (took := event.event.ran_for) is not None:
            self._took.labels(workflow, step).observe(took / 1e6)
        if event.retry_at is not None:
            self._backoff.labels(workflow, step).observe(max(event.retry_at - event.at, 0) / 1e6)

    def follow(self, source: Source) -> Callable[[], None]:
        """Look up there what waits, and what is in hand."""
        return self._now.follow(source)

    def serve(self, port: int, host: str = "127.0.0.1") -> tuple[int, Callable[[], None]]:
        """Serve the registry over HTTP; return the port, and the way to stop. Raises `OSError`."""
        server, thread = _client().start_http_server(port, host, self.registry)

        def stop() -> None:
            server.shutdown()
            server.server_close()
            thread.join()

        return server.server_port, stop


class _Now:
    """What is looked up when somebody asks; a collector of `prometheus_client`."""

    def __init__(self) -> None:
        self._sources: list[Source] = []
        self._past: Counter[str] = Counter()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._backlog: list[tuple[Backlog, int]] = []
        self._looked_at = float("-inf")
        self._looking: asyncio.Task[None] | None = None

    def follow(self, source: Source) -> Callable[[], None]:
        """Ask this one too; what a worker has counted stays when it leaves."""
        self._loop = asyncio.get_running_loop()
        self._sources.append(source)

        def unfollow() -> None:
            self._sources.remove(source)
            self._past.update({name: source.facts()[name] for name in COUNTS})

        return unfollow

    def describe(self) -> Iterator[Metric]:
        """Name the metrics, without a look at the store."""
        yield from self._metrics([])

    def collect(self) -> Iterator[Metric]:
        """Return what is now; called in any thread."""
        self._refresh()
        yield from self._metrics(self._backlog)

    def _metrics(self, backlog: Sequence[tuple[Backlog, int]]) -> Iterator[Metric]:
        core = _client().core
        names = ["workflow", "queue"]
        pending = core.GaugeMetricFamily(
            "holdfast_runs_pending", "Runs that could go on and wait for a worker.", labels=names
        )
        later = core.GaugeMetricFamily(
            "holdfast_runs_sleeping", "Runs that wait for a time.", labels=names
        )
        in_line = core.GaugeMetricFamily(
            "holdfast_runs_in_line", "Runs that wait for a slot of their queue.", labels=names
        )
        age = core.GaugeMetricFamily(
            "holdfast_pending_age_seconds", "How long the first of them has waited.", labels=names
        )
        for each, now in backlog:
            labels = [each.workflow, each.queue]
            pending.add_metric(labels, each.pending)
            later.add_metric(labels, each.later)
            in_line.add_metric(labels, each.in_line)
            age.add_metric(labels, max(now - each.oldest, 0) / 1e6 if each.pending else 0)
        yield from (pending, later, in_line, age)
        facts = [source.facts() for source in tuple(self._sources)]
        for fact, (name, text) in FACTS.items():
            yield core.GaugeMetricFamily(name, text, sum(each[fact] for each in facts))
        for fact, (name, text) in COUNTS.items():
            total = self._past[fact] + sum(each[fact] for each in facts)
            yield core.CounterMetricFamily(name, text, total)

    def _refresh(self) -> None:
        """Look up what waits, unless that was done a moment ago."""
        loop = self._loop
        if loop is None or loop.is_closed() or loop.time() - self._looked_at < FRESH:
            return
        if asyncio._get_running_loop() is loop:  # pyright: ignore[reportPrivateUsage]
            # Who asks in the worker's own loop must not wait for it: the next one has it.
            if self._looking is None or self._looking.done():
                self._looking = loop.create_task(self._look(loop))
            return
        try:
            asyncio.run_coroutine_threadsafe(self._look(loop), loop).result(PATIENCE)
        except (TooLate, RuntimeError):
            self._backlog = []  # better none than one of long ago

    async def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        found: dict[tuple[str, str], tuple[Backlog, int]] = {}
        try:
            for source in tuple(self._sources):
                for each in await source.backlog():  # once, if two workers share a store
                    found.setdefault((each.workflow, each.queue), (each, source.now()))
        except StoreError:
            found = {}
        self._backlog, self._looked_at = list(found.values()), loop.time()


def _client() -> Any:
    try:
        import_module("prometheus_client.core")
        return import_module("prometheus_client")
    except ModuleNotFoundError as error:
        raise MissingExtra(what="PrometheusObserver", extra="prometheus") from error
