"""The children of a held run, and that it may be one itself: what the host remembers and does.

A child is created in the commit that records its start, so it exists if and only if the event does.
Its end comes as a message, and is recorded once. A child of an earlier generation, of before an
import, or of the part that a fork shares, may have ended while nobody listened, or not be there
yet: it is created again, which is harmless, and its end is then told again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, cast

from holdfast.kernel import dispatch
from holdfast.machine import Machine
from holdfast.machine.children import Children
from holdfast.machine.values import digest
from holdfast.model.asks import ChildAsk, ToChild
from holdfast.model.commands import CancelRun, SignalRun, StartRun
from holdfast.model.events import FED, Event, Failure
from holdfast.model.failures import encode_failure
from holdfast.model.family import Link, child_id, depth_of, refusal, start_noted, started_id
from holdfast.model.run import Message, Run
from holdfast.model.schedules import schedule_in
from holdfast.model.writes import Depart, Send

if TYPE_CHECKING:
    from holdfast.hosts.worker.feeding import Feeding
    from holdfast.hosts.worker.held import Held
    from holdfast.hosts.worker.turn import Draft

IMPORTED = b'{"reason": "imported"}'


class Family:
    """What the history of a run says of its parent and its children."""

    __slots__ = ("_ids", "_open", "depth", "descent", "has_children", "taken", "unsure")

    def __init__(self, descent: str = "", taken: frozenset[str] = frozenset()) -> None:
        self.descent = descent
        """The key of the run's first event: under whom it stands."""
        self.depth = depth_of(descent)
        self.has_children = False
        self.taken = taken
        """Ids that were refused to new children, in this worker's hands."""
        self._open: dict[str, Event] = {}
        self._ids: dict[str, str] = {}
        self.unsure: set[str] = set()
        """Keys of children that may have ended while nobody listened."""

    def hear(self, event: Event) -> None:
        """Remember the start or the end of a child."""
        if event.kind == "child.started":
            self.has_children = True
            self._open[event.key] = event
            self._ids[event.key] = started_id(event)
        else:
            self._open.pop(event.key, None)
            self._ids.pop(event.key, None)
            self.unsure.discard(event.key)

    def doubt(self) -> None:
        """Be unsure of all that are open."""
        self.unsure.update(self._open)

    def is_used(self, id: str) -> bool:
        """Tell whether an open child has this id."""
        return id in self._ids.values()

    def closed_by(self, message: Message, at: int) -> Event | None:
        """Return the event for a message about a child's end, if it is news."""
        key, started = message.name, self._open.get(message.name)
        if started is None or not message.id.endswith(f"/{key}/{self._ids[key]}"):
            return None
        closed = Event(
            "child.closed", at, message.name, message.payload, started.asked_seq, started.digest
        )
        self.hear(closed)
        return closed

    def departure(self, run: Run, closing: Event) -> Depart:
        """Return what has to be done for the others when the run closes, or continues as new.

        One that continues stays a child, and leaves its own children as one that closes does.
        """
        if closing.kind == "run.continued":
            return Depart(run.ns, run.id, run.generation, closing, False, self.has_children)
        return Depart(
            run.ns, run.id, run.generation, closing, self.depth > 0, self.has_children,
            schedule_in(self.descent),
        )  # fmt: skip


def family_of(
    events: Sequence[Event],
    run: Run,
    machine: Machine,
    before: Family | None,
    left_out: Iterable[int] = (),
) -> Family | None:
    """Return what a history says of parent and children; most runs have neither.

    Of what no longer counts, `left_out`, there may be children, and none that the body waits for.
    """
    descent = events[0].key if events else ""
    if not descent and machine.children is None and before is None:
        return None
    family = Family(descent, before.taken if before else frozenset())
    gone = frozenset(left_out)
    for event in events:
        if event.seq in gone:
            family.has_children |= event.kind == "child.started"
        elif event.kind in ("child.started", "child.closed"):
            family.hear(event)
        elif event.kind in ("run.reopened", "run.forked") or is_import(event):
            family.doubt()
    if machine.children is not None:
        # What was sent before the last event is stored with it; with it may mean after it.
        last = max((event.seq for event in events if event.kind in FED), default=0)
        sends = machine.children.sends
        machine.children.sends = [send for send in sends if send.asked_seq >= last]
    return family


def is_import(event: Event) -> bool:
    """Tell whether a run was brought here from another store with this event."""
    return event.kind == "run.paused" and event.payload == IMPORTED


def start_children(held: Feeding, draft: Draft) -> None:
    """Add to the turn what the body asks of its children: starts, and messages to them."""
    machine, children = held.machine, held.machine.children
    if children is None:
        return
    family = draft.family = held.family = held.family or Family()
    while machine.ended is None and not (held.paused or held.draining) and children.fresh:
        ask = _named(next(iter(children.fresh.values())), held)
        if ask.id in family.taken or (ask.options.id is not None and family.is_used(ask.id)):
            held.feed(draft, draft.add(_refused(ask, draft.at)))
        else:
            event = draft.add(_started(ask, draft.at))
            family.hear(event)
            draft.send(_created(ask, held.run, family.depth + 1, draft.at))
            held.feed(draft, event)
    if family.unsure and machine.ended is None:
        _make_sure(held, draft, family, children)
    for send in children.take_sends():
        draft.send(_sent(send, held.run, draft.at))


def _make_sure(held: Feeding, draft: Draft, family: Family, children: Children) -> None:
    """Create again what may have ended unheard: if it is there, its end is told again."""
    keys, family.unsure = sorted(family.unsure), set()
    for known in [children.open[key] for key in keys if key in children.open]:
        ask = known.ask._replace(id=known.id)
        if known.id in family.taken:
            closed = draft.add(_refused(ask, draft.at))
            family.hear(closed)
            held.feed(draft, closed)
        elif not known.is_given_up:
            draft.send(_created(ask, held.run, family.depth + 1, draft.at))


def refuse(held: Held, id: str) -> None:
    """Remember that the id of a child is taken: its start is refused in the next turn."""
    family = held.family = held.family or Family()
    family.taken |= {id}


def _named(ask: ChildAsk, held: Held) -> ChildAsk:
    """Return the ask with the id of an earlier generation, if a rerun keeps the keys of that."""
    if ask.options.id is not None or held.keyed_as == held.run.generation:
        return ask
    return ask._replace(id=child_id(held.run.id, ask.key, held.keyed_as))


def _started(ask: ChildAsk, at: int) -> Event:
    payload = start_noted(ask.id, ask.workflow.name, ask.options.policy)
    return Event("child.started", at, ask.key, payload, ask.asked_seq, ask.digest)


def _refused(ask: ChildAsk, at: int) -> Event:
    why = Failure("RunConflict", f"Run {ask.id!r} exists, and is other work")
    payload = refusal(encode_failure(why))
    return Event("child.closed", at, ask.key, payload, ask.asked_seq, ask.digest)


def _created(ask: ChildAsk, run: Run, depth: int, at: int) -> Send:
    workflow, options = ask.workflow, ask.options
    command = StartRun(
        ns=run.ns,
        id=ask.id,
        workflow=workflow.name,
        version=workflow.version,
        input=ask.input,
        input_digest=digest(ask.input),
        at=at,
        shape=workflow.shape,
        timeout=options.timeout,
        queue=options.queue,
        priority=options.priority,
        place=options.place,
        link=Link(run.id, ask.key, run.generation, options.policy),
        depth=depth,
    )
    return cast("Send", dispatch.decide(command))


def _sent(send: ToChild, run: Run, at: int) -> Send:
    command: CancelRun | SignalRun
    if send.kind == "cancel":
        command = CancelRun(run.ns, send.child, send.id, at, send.reason)
    else:
        command = SignalRun(run.ns, send.child, send.name, send.payload or b"null", send.id, at)
    return cast("Send", dispatch.decide(command))
