"""The history of a run of a graph, told in the words of graphs: `node.start`, `edge.transition`...

A view feeds the recorded events to a machine of its own, on which the same walk goes the same way
and tells what it does. So all that is told follows from the history alone: it is the same on every
store, after every crash, and for whoever reads it later. Nothing runs, and nothing is stored.

Each word belongs to the event of the history in whose turn the body did what it tells of, and has
a number among those: `12.3` is the third that event 12 led to. A reader that was cut off goes on
after the last it has.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from holdfast.errors import InvalidValue
from holdfast.fronts.graph.blueprint import Blueprint
from holdfast.fronts.graph.tracing import TRACE
from holdfast.fronts.graph.walking import checkpoint_key
from holdfast.machine import Machine
from holdfast.machine.machine import Body
from holdfast.machine.values import Signature
from holdfast.model.events import BEGINNINGS, CLASS_OF, FED, Event, EventKind, since_start
from holdfast.model.executed import ExecutionEvent
from holdfast.model.failures import in_a_line
from holdfast.model.travel import as_of, forking, living

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

CLOSES: Mapping[EventKind, str] = {
    "run.completed": "graph.complete", "run.failed": "graph.failed",
    "run.timed_out": "graph.failed", "run.compensation_failed": "graph.failed",
    "run.cancelled": "graph.cancelled", "run.terminated": "graph.cancelled",
    "run.moved": "graph.cancelled",
}  # fmt: skip
MARKS: Mapping[EventKind, str] = {
    "run.paused": "graph.paused", "run.resumed": "graph.resumed", "run.blocked": "graph.blocked",
}  # fmt: skip
OF_RUNS = ("graph.start", "checkpoint.save")
INTERRUPTS: Mapping[EventKind, str] = {
    "question.asked": "interrupt.asked", "question.answered": "interrupt.answered",
}  # fmt: skip


def place_of(after: int | str) -> tuple[int, int]:
    """Return seq and part of what is named by `12.3`, or all of event 12 by 12.

    Raises `InvalidValue`.
    """
    if type(after) is int and after >= 0:
        return after, 1 << 62
    seq, _, part = str(after).partition(".")
    if isinstance(after, str) and seq.isdecimal() and part.isdecimal():
        return int(seq), int(part)
    raise InvalidValue(
        where="graph events", path="after", problem=f"{after!r:.40} is no place in a run",
        hint="Give the `id` or the `seq` of the last event you have, or 0.",
    )  # fmt: skip


class View:
    """The events of one run of a graph. Give it the history again whenever that has grown.

    Close it. It may raise what would block the run: the graph's code has changed.
    """

    def __init__(
        self,
        graph: Blueprint,
        body: Body,
        signature: Signature,
        *,
        ns: str,
        run: str,
        snapshots: bool = True,
    ) -> None:
        self._graph, self._body, self._signature = graph, body, signature
        self._ns, self._run, self._snapshots = ns, run, snapshots
        self._steps = dict(_steps(graph))
        self._machine: Machine | None = None
        self._is_closing = False
        self._generation, self._read = 1, 0
        self._told: list[ExecutionEvent] = []
        self._counts: Mapping[str, Any] = {}
        self._open: dict[tuple[str, str, int], ExecutionEvent] = {}
        self._done: ExecutionEvent | None = None
        self._shown: tuple[Any, Mapping[str, Any]] = (None, {})
        self._saved: frozenset[str] = frozenset()
        self._last = 0

    def __enter__(self) -> View:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def seq(self) -> int:
        """The number of the last event that it has read."""
        return self._read

    def read(self, history: Sequence[Event]) -> list[ExecutionEvent]:
        """Return what the new events of a history mean: all of it, what was superseded too."""
        new = history[self._read :]
        if forks := [event.seq for event in new if event.kind == "run.forked"]:
            new = history[forks[-1] - 1 :]
        batch: list[Event] = []
        for event in new:
            if event.kind in BEGINNINGS or CLASS_OF[event.kind] == "close":
                self._feed(batch, len(history))
                batch = []
                if event.kind in BEGINNINGS:
                    self._begin(event, history[: event.seq])
                else:
                    self._end(event)
            else:
                batch.append(event)
        self._feed(batch, len(history))
        self._read = len(history)
        told, self._told = self._told, []
        return [*_numbered(told)]

    def close(self) -> None:
        """Let go of the body."""
        if self._machine is not None:
            self._is_closing = True
            self._machine.close()
            self._machine, self._is_closing = None, False

    # --- feeding

    def _feed(self, events: Sequence[Event], length: int) -> None:
        """Feed events of one life of the run, and tell of those that no body sees."""
        for event in events:
            self._mark(event)
        # Of a run that has only begun nothing is recorded yet: it follows the newest code.
        self._feed_all([e for e in events if CLASS_OF[e.kind] != "mark"], is_new=length == 1)

    def _feed_all(self, events: Sequence[Event], *, is_new: bool = False) -> None:
        if events:
            machine = self._machine = self._machine or self._new_machine()
            self._saved = frozenset(e.key for e in events if e.kind == "note.checkpoint")
            self._last = next(e.seq for e in reversed(events) if e.kind != "run.forked")
            machine.feed_all(events, self._generation, is_new=is_new)

    def _new_machine(self) -> Machine:
        async def body(*given: Any, **named: Any) -> Any:
            TRACE.set(self)
            return await self._body(*given, **named)

        return Machine(body, self._signature, ns=self._ns, run=self._run)

    def _begin(self, event: Event, history: Sequence[Event]) -> None:
        """Go on in another life of the run, with what counts of the one before."""
        self.close()
        self._generation, self._open, self._done = event.generation, {}, None
        if event.kind == "run.continued":
            self._feed_all([event])
            return
        counting = since_start(living(as_of(history, event.seq)))
        told, self._told = self._told, []
        # The mark of a fork says by whose numbers it shares a part, and what is edited there.
        self._feed_all([e for e in counting if e.kind in FED or e.kind == "run.forked"])
        hidden, self._told = self._told, told
        self._resume(event, hidden)

    def _resume(self, event: Event, hidden: Sequence[ExecutionEvent]) -> None:
        """Tell where a run goes on that was retried, rerun or forked."""
        origin = forking(event).get("origin") if event.kind == "run.forked" else None
        shared = {} if origin is None else {"origin": origin}
        done, node = self._done, self._done.data["node"] if self._done else ""
        going = ", ".join(each.data["node"] for each in self._open.values())
        name = self._graph.name
        self._add(event, "checkpoint.load", name, {"node": node, "run_id": self._run, **shared})
        told = {"checkpoint_node": node, "resume_node": going, "run_id": self._run, **shared}
        self._add(event, "checkpoint.resume", name, told)
        begun = [each for each in hidden if each.type == "graph.start"][:1]
        last = hidden[-1].seq if hidden else 0
        if origin is not None and done is not None and done.seq == last:
            # What a fork decides on an edited result is its own.
            begun += [each for each in hidden if each.seq == last and each.type != "node.start"]
        for each in begun:
            self._add(event, each.type, each.source, each.data)
        for key, each in self._open.items():
            self._open[key] = self._add(event, each.type, each.source, each.data)

    # --- what the body tells

    def tell(self, type: str, source: str, data: Mapping[str, Any]) -> None:
        """Take a word of the walk, or of a body of a node."""
        machine = self._machine
        if machine is None or self._is_closing:
            return
        within = machine.loop.scope().path.rstrip("/")
        if not within and type in CLOSES.values():
            self._counts = data  # told when it is committed that the run has ended
            return
        told = {**data, "run_id": self._run} if type in OF_RUNS else {**data}
        if within:
            told["within"] = within
        event = self._made(type, source, told, machine.seq, machine.now)
        key = (within, data.get("node", ""), data.get("iteration", 0))
        if type == "node.start":
            self._open[key] = event
        elif type == "node.complete":
            event = self._done = _timed(event, self._open.pop(key))
        self._told.append(event)

    def snapshot(self, name: str, graph: Blueprint, state: Any) -> Mapping[str, Any]:
        """Return the values of a state under this name; nothing if nobody wants them."""
        if not self._snapshots:
            return {}
        if self._shown[0] is not state:
            self._shown = (state, graph.shape.before(state))
        return {name: self._shown[1]}

    def is_saved(self, graph: Blueprint, node: str, iteration: int) -> bool:
        """Tell whether a node that is done right now has left a checkpoint."""
        machine = self._machine
        if machine is None or machine.seq == self._last:
            # What was said in this turn is yet to come, or the run has only begun.
            return graph.checkpoint.is_due(iteration)
        return machine.loop.scope().path + checkpoint_key(node, iteration) in self._saved

    # --- what no body sees

    def _mark(self, event: Event) -> None:
        name = self._graph.name
        if event.kind in MARKS:
            self._add(event, MARKS[event.kind], name, {"reason": _reason(event)})
        elif event.kind in INTERRUPTS:
            inside = event.key.rpartition("/")[0].rpartition("/")[2].rpartition("[")[0]
            self._add(event, INTERRUPTS[event.kind], name, {"node": inside, "key": event.key})
        elif event.kind == "step.retrying":
            node = self._steps.get(event.key.rpartition("/")[2].rpartition("#")[0])
            said = json.loads(event.payload or b"{}")
            told = in_a_line(said.get("type", ""), said.get("message", ""))
            attempt = {"node": node, "attempt": said.get("attempt", 0), "error_message": told}
            if node is not None:
                self._add(event, "node.retry", name, attempt)

    def _end(self, event: Event) -> None:
        type, told, status = CLOSES[event.kind], {**self._counts}, event.kind.removeprefix("run.")
        for each in self._open.values():  # whoever ended the run did not ask its body
            ended = {"node": each.data["node"], "iteration": each.data["iteration"], "error": True}
            made = self._add(
                event, "node.complete", each.source, {**ended, "error_message": status}
            )
            self._told[-1] = _timed(made, each)
        self._open = {}
        if type != "graph.complete":
            told = {**told, "status": status, "error_message": _reason(event) or status}
        self._add(event, type, self._graph.name, told)

    # --- making

    def _add(self, event: Event, type: str, source: str, data: Mapping[str, Any]) -> ExecutionEvent:
        made = self._made(type, source, data, event.seq, event.at)
        self._told.append(made)
        return made

    def _made(
        self, type: str, source: str, data: Mapping[str, Any], seq: int, at: int
    ) -> ExecutionEvent:
        when = EPOCH + timedelta(microseconds=at)
        return ExecutionEvent(type, when, source, data, self._run, seq)


def _numbered(told: Sequence[ExecutionEvent]) -> Iterator[ExecutionEvent]:
    """Put words in the order of their events, and number those of each."""
    ordered = sorted(told, key=lambda each: (each.seq, each.type != "interrupt.answered"))
    for _, same in groupby(ordered, key=lambda each: each.seq):
        for part, each in enumerate(same, start=1):
            yield each._replace(part=part)


def _timed(ended: ExecutionEvent, began: ExecutionEvent) -> ExecutionEvent:
    taken = (ended.timestamp - began.timestamp) // timedelta(milliseconds=1)
    return ended._replace(data={**ended.data, "duration_ms": taken})


def _reason(event: Event) -> str:
    """Return why it came to an event of the run itself."""
    said: dict[str, Any] = json.loads(event.payload or b"{}")
    if "type" not in said:
        return str(said.get("reason", ""))
    return f"{said['type']}: {said.get('message', '')}"


def _steps(graph: Blueprint) -> Iterator[tuple[str, str]]:
    """Yield the steps that are nodes, and of which."""
    for node in graph.nodes.values():
        yield f"{graph.name}.{node.name}", node.name
        if node.inner is not None:
            yield from _steps(node.inner)
