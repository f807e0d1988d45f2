"""ForkRun: a new run that shares another's history up to a point, and goes its own way from there.

The other run is untouched, also when it goes on, and the fork is untouched by that: it shares what
counted when it was made. Edited results stand in the place of the recorded ones; what the body then
no longer asks for is left out by whoever replays it. What is no result, as the state of a graph
after any of its nodes, is edited by the mark that begins the fork: a replay finds it there when it
comes to that place. With another input nothing is shared. Messages that the shared part has
recorded count as read, and were told what it says.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from holdfast.errors import InvalidValue, RunConflict, RunNotFound, UnknownKey
from holdfast.kernel.reopening import deadline_of, told
from holdfast.model.commands import ForkRun
from holdfast.model.events import CLASS_OF, Event, since_start
from holdfast.model.exports import Export
from holdfast.model.family import child_id, started_as
from holdfast.model.run import CANCEL_DELIVERED, ENDS_OF_UPDATES, NOT_CANCELLED, Message, Run
from holdfast.model.travel import Edit, as_of, edits_of, living, seeds_of, told_edits
from holdfast.model.writes import Import, Origin, Outcome

HINT = "`holdfast runs show RUN --all` lists the events by their numbers."


class Point(NamedTuple):
    """A place in a history: after event `at`, as it counted when there were `length` events."""

    at: int
    length: int


def decide(command: ForkRun) -> Import:
    """Insert the fork, unless the id is taken. Raises `UnknownKey` or `InvalidValue`."""
    if command.input is not None:
        return _from_start(command, command.input)
    point = point_of(command)
    history = as_of(command.origin.events, point.length)
    edited = [_edited(command, history[: point.at], key) for key in command.results]
    counting = living(history[: point.at])
    origin = command.origin.run
    states = _states(command, history, point.at, edited)
    # What was recorded came of other results: then answers may be left out, as after a retry.
    generation = history[-1].generation + bool(edited or command.states)
    payload = told(
        origin=origin.id, at=point.at, seeds=_seeds(command.origin, counting, states),
        results=[event.key for event in edited], states=told_edits(states), reason=command.reason,
    )  # fmt: skip
    last = history[point.at - 1]
    mark = Event(
        "run.forked", max(command.at, last.at), payload=payload, seq=point.at + 1,
        epoch=last.epoch, generation=generation,
    )  # fmt: skip
    inbox = _read_messages(counting)
    is_cancelled = any(event.kind == "cancel.requested" for event in counting)
    run = _row(command, mark)._replace(
        inbox_seq=len(inbox), inbox_read=len(inbox),
        cancel=CANCEL_DELIVERED if is_cancelled else NOT_CANCELLED,
    )  # fmt: skip
    own = sorted((*edited, *_children(command.id, counting, generation)), key=lambda e: e.seq)
    whole = Export(run, (*own, mark), inbox, command.origin.labels, command.origin.queue_key)
    return Import(whole, Origin(origin.id, origin.created_at, *point))


def _states(
    command: ForkRun, history: Sequence[Event], at: int, edited: Sequence[Event]
) -> tuple[Edit, ...]:
    """Return what is found otherwise in the fork: what is edited now, and was in its origin.

    With another result nothing stays of what was edited in the turn of the former.
    """
    anew = {event.seq for event in edited}
    kept = [edit for edit in edits_of(history) if edit.seq <= at and edit.seq not in anew]
    return tuple({(edit.seq, edit.key): edit for edit in (*kept, *command.states)}.values())


def _seeds(
    origin: Export, counting: Sequence[Event], states: Sequence[Edit]
) -> list[tuple[str, int]]:
    """Return by which runs chance is drawn, each before an event: the origin, or its own origin.

    Nothing that is shared was computed by what is drawn in the last turn: that is the fork's own,
    but for what it draws until it comes to the place at which it finds something else.
    """
    turns = (e.seq for e in counting if CLASS_OF[e.kind] in ("start", "answer", "message"))
    turn = max(*turns, *(edit.seq for edit in states), 0)
    found: list[tuple[str, int]] = []
    for before, run in (*seeds_of(origin.events), (turn, origin.run.id)):
        if not found or found[-1][1] < turn:
            found.append((run, min(before, turn)))
    return found


def _from_start(command: ForkRun, input: bytes) -> Import:
    """Begin anew with another input: nothing is shared but what the run is."""
    first, origin = command.origin.events[0], command.origin.run
    if command.results or command.point not in (None, 1):
        raise InvalidValue(
            where="fork", path="input", problem="another input leaves nothing of the history",
            hint="Give it alone, or edit results and leave the input as it was.",
        )  # fmt: skip
    started = Event("run.started", command.at, payload=input, digest=first.digest, seq=1)
    payload = told(origin=origin.id, seeds=[], input=True, reason=command.reason)
    mark = Event("run.forked", command.at, payload=payload, seq=2)
    labels, queue_key = command.origin.labels, command.origin.queue_key
    whole = Export(_row(command, mark), (started, mark), (), labels, queue_key)
    return Import(whole, Origin(origin.id, origin.created_at, 0, 0))


def _row(command: ForkRun, mark: Event) -> Run:
    origin = command.origin.run
    deadline = deadline_of(living(command.origin.events), origin.deadline, command.at)
    return Run(
        command.ns, command.id, origin.workflow, origin.version, "pending", "", mark.generation,
        mark.epoch, mark.seq, None, command.at, 0, 0, NOT_CANCELLED, 0, command.digest, command.at,
        command.at, None, deadline, origin.queue, origin.priority,
    )  # fmt: skip


# --- where


def point_of(command: ForkRun) -> Point:
    """Return where the fork leaves its origin. Raises `UnknownKey` or `InvalidValue`."""
    events, asked = command.origin.events, command.point
    counting = living(events)
    length = len(events)
    if isinstance(asked, int):
        at, length = _numbered(events, asked)
    elif asked is not None:
        at = _answer(command, counting, asked).seq
    elif command.results:
        at = max(_answer(command, counting, key).seq for key in command.results)
    else:
        at = counting[-1].seq
    then = living(as_of(events, length))
    before = [event for event in then if event.seq <= at and CLASS_OF[event.kind] != "close"]
    at = before[-1].seq
    for event in then[len(before) :]:
        # What the body said in this turn belongs to it.
        if CLASS_OF[event.kind] != "note" or event.asked_seq > before[-1].seq:
            break
        at = event.seq
    return Point(at, length)


def _numbered(events: Sequence[Event], at: int) -> Point:
    """Return the place of an event, at a time when it counted."""
    if not 1 <= at <= len(events):
        raise InvalidValue(
            where="fork", path="at", problem=f"{at} is no event of {len(events)}", hint=HINT
        )
    gone = events[at - 1].superseded_by
    return Point(at, len(events) if gone is None else gone - 1)


def _answer(command: ForkRun, events: Sequence[Event], key: str) -> Event:
    events = since_start(events)  # keys begin again with each continuation
    answers = {event.key: event for event in events if CLASS_OF[event.kind] == "answer"}
    if key not in answers:
        raise UnknownKey(run=command.origin.run.id, key=key, known=tuple(answers))
    return answers[key]


# --- what


def _edited(command: ForkRun, history: Sequence[Event], key: str) -> Event:
    """Return the answer of a step with another result. Raises `UnknownKey`."""
    kinds = ("step.completed", "step.failed")
    steps = [event for event in since_start(living(history)) if event.kind in kinds]
    answer = _answer(command, steps, key)
    return answer._replace(kind="step.completed", payload=command.results[key], took=None)


def _children(fork: str, counting: Sequence[Event], generation: int) -> list[Event]:
    """Return the starts of children that were open, as those of children of the fork's own.

    The others report to the origin. These are created when the fork is first taken up.
    """
    events = since_start(counting)
    ended = {event.key for event in events if event.kind == "child.closed"}
    return [
        event._replace(payload=started_as(event, child_id(fork, event.key, generation)))
        for event in events
        if event.kind == "child.started" and event.key not in ended
    ]


def _read_messages(counting: Sequence[Event]) -> tuple[Message, ...]:
    """Return the messages that the shared part has recorded, numbered in that order.

    The inbox of the origin tells what counts there now: it may have taken a message back since, or
    said something else to it, and if it is a fork itself, it has only those that counted then.
    """
    ends = {event.key: event for event in counting if event.kind in ENDS_OF_UPDATES}
    brought = (_message(event, ends.get(event.key)) for event in counting)
    return tuple(message._replace(n=n) for n, message in enumerate(filter(None, brought), start=1))


def _message(event: Event, end: Event | None) -> Message | None:
    """Return the message that brought an event, with what it was told, if a message did."""
    name, _, id = event.key.partition("/")
    match event.kind:
        case "signal.received":
            return Message(id, "signal", name, event.payload, event.at)
        case "update.accepted" if end is not None:
            state, reply = ENDS_OF_UPDATES[end.kind], end.payload
            return Message(id, "update", name, event.payload, event.at, state=state, reply=reply)
        case "update.accepted":
            return Message(id, "update", name, event.payload, event.at, state="accepted")
        case "cancel.requested":
            return Message(event.key, "cancel", "", event.payload, event.at)
        case _:
            return None  # the passing of a deadline comes from nobody


def read(command: ForkRun, outcome: Outcome) -> Run:
    """Return the fork, new or found. Raises `RunNotFound` or `RunConflict`."""
    if outcome.run is None:
        raise RunNotFound(run=command.origin.run.id)
    if outcome.run.input_digest != command.digest:
        raise RunConflict(run=command.id, differs="history")
    return outcome.run
