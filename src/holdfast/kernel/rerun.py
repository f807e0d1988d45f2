"""RerunRun: a run goes back to where it asked for something, and goes on anew from there.

Nothing is destroyed. What was asked for later stops counting, and the outcome of the call itself:
answers, attempts, notes, and the close. Siblings that were asked for at or before that point stay,
with what the body noted in their turns, unless it goes back exactly. Messages that came after it
are unread again, in their order; a cancel or a passed deadline among them is forgotten. Generation
and epoch go up: a worker that holds the run is refused from then on, and the steps that run again
have new idempotency keys, unless they are to keep theirs.

What a saga has undone since must be done again: then the run goes back to where it asked for that.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from holdfast.errors import UnknownKey
from holdfast.kernel.refusal import illegal
from holdfast.kernel.reopening import ATTEMPTS, deadline_of, length_of, told
from holdfast.model.commands import RerunRun
from holdfast.model.departing import cancelling
from holdfast.model.events import CLASS_OF, COMPENSATION, Event, since_start
from holdfast.model.family import policy_of, started_id
from holdfast.model.keys import NAMED, is_of, message_of, undone_by
from holdfast.model.run import ENDS_OF_UPDATES, Run
from holdfast.model.status import movable_to
from holdfast.model.travel import keyed_as
from holdfast.model.writes import Move, Outcome, Put, Rewind

ORIGINS = movable_to("pending")


def decide(command: RerunRun) -> Move:
    """Make the run pending, guarded by the history the decision was made on.

    Raises `UnknownKey`.
    """
    history, key = command.history, command.key
    gone = superseded(history, key, command.run, exactly=command.exactly)
    keys = keyed_as(history, command.generation) if command.keep_keys else 0
    anew = not command.keep_keys
    payload = told(from_=key, reason=command.reason, keys=keys, anew=anew, id=command.id)
    messages = tuple(message_of(e) for e in gone if e.kind in NAMED)
    return Move(
        ns=command.ns,
        run=command.run,
        origins=ORIGINS,
        status="pending",
        event=Event("run.reopened", command.at, payload=payload),
        wake_at=command.at,
        seq=length_of(history),
        supersedes=tuple(event.seq for event in gone),
        reopens=True,
        deadline=deadline_of(history, command.deadline, command.at),
        rewind=Rewind(messages, any(e.kind == "cancel.requested" for e in gone)),
        sends=_given_up(command, gone),
    )


def _given_up(command: RerunRun, gone: Sequence[Event]) -> tuple[Put, ...]:
    """Ask the open children to stop whose start no longer counts; others take their place."""
    ended = {event.key for event in gone if event.kind == "child.closed"}
    starts = [e for e in gone if e.kind == "child.started" and e.key not in ended]
    reason = f"its parent {command.run} went back to before its start"
    return tuple(
        cancelling(
            command.ns, started_id(each), f"back/{command.run}/{each.seq}", command.at, reason
        )
        for each in starts
        if policy_of(each) != "abandon"
    )


def superseded(
    history: Sequence[Event], key: str | int | None, run: str, *, exactly: bool = False
) -> list[Event]:
    """Return the living events that stop counting. Raises `UnknownKey`."""
    history = since_start(history)  # there is no way back over a continuation
    answers = [event for event in history if CLASS_OF[event.kind] == "answer"]
    if key is None:
        return _after(history, history[0].seq if history else 0, {event.key for event in answers})
    cut, again = _place_of(history, key, run)
    if exactly:
        again |= {event.key for event in answers if event.seq > cut}
    is_undo = isinstance(key, str) and any(undone_by(key))
    while True:
        gone = _after(history, cut, again)
        undone = set[str]() if is_undo else _undone(gone)
        seqs = {event.seq for event in gone} if undone else set[int]()
        lost = [e for e in answers if e.seq not in seqs and any(is_of(e.key, k) for k in undone)]
        if not lost:
            return gone
        again |= {event.key for event in lost}
        cut = min(cut, *(event.asked_seq for event in lost))


def _place_of(history: Sequence[Event], key: str | int, run: str) -> tuple[int, set[str]]:
    """Return the last event that counts, and whose outcome does not, whenever it was asked for."""
    if isinstance(key, int):
        if not history or not history[0].seq <= key <= history[-1].seq:
            ends = tuple(str(event.seq) for event in (history[0], history[-1])) if history else ()
            raise UnknownKey(run=run, key=str(key), known=ends)
        return key, set()
    asked = [e.asked_seq for e in history if e.key == key and _is_asked_for(e)]
    if not asked:
        known = tuple(dict.fromkeys(event.key for event in history if _is_asked_for(event)))
        raise UnknownKey(run=run, key=key, known=known)
    return min(asked), {key}


def forgotten(
    history: Sequence[Event], key: str | int | None, run: str, *, exactly: bool = False
) -> list[str]:
    """Return the keys whose outcome no longer counts, in the order in which it came."""
    gone = superseded(history, key, run, exactly=exactly)
    return [event.key for event in gone if CLASS_OF[event.kind] == "answer"]


def _after(history: Sequence[Event], cut: int, again: Collection[str]) -> list[Event]:
    """Return what was asked for, said or heard after `cut`, and all that is of `again`."""
    kept = {e.seq for e in history if CLASS_OF[e.kind] == "answer" and not _is_gone(e, cut, again)}
    unread = {e.key for e in history if e.kind == "update.accepted" and e.seq > cut}
    # The end of an update goes with its acceptance, in whatever turn it was said.
    return [
        event
        for event in history
        if (event.kind in ENDS_OF_UPDATES and event.key in unread)
        or (
            _is_gone(event, cut, again)
            and not (CLASS_OF[event.kind] == "note" and _is_kept(event, kept))
        )
    ]


def _is_kept(note: Event, kept: Collection[int]) -> bool:
    """Tell whether a note was said in a turn that stays; a child's start goes with its end."""
    return note.asked_seq in kept and note.kind not in ATTEMPTS


def _is_gone(event: Event, cut: int, again: Collection[str]) -> bool:
    match CLASS_OF[event.kind]:
        case "answer":
            return event.asked_seq > cut or event.key in again
        case "message":
            return event.seq > cut
        case "note" | "mark" if event.kind in ATTEMPTS:
            return event.asked_seq > cut or event.key in again
        case "note":
            return event.asked_seq > cut
        case "mark":
            return event.key == COMPENSATION and event.seq > cut
        case "close":
            return True
        case "start":
            return False


def _is_asked_for(event: Event) -> bool:
    return CLASS_OF[event.kind] == "answer" or event.kind in ATTEMPTS


def _undone(gone: Sequence[Event]) -> set[str]:
    """Return the calls of which something has been undone by what no longer counts."""
    return {key for e in gone if e.kind == "step.completed" for key in undone_by(e.key)}


def read(command: RerunRun, outcome: Outcome) -> Run | None:
    """Return the reopened run, or None if it moved on meanwhile: then decide again.

    Raises `RunNotFound` or `IllegalMove`.
    """
    run = outcome.run
    if outcome.applied or (run is not None and run.status in ORIGINS):
        return run if outcome.applied else None
    raise illegal(command.run, outcome, command="rerun", allowed=ORIGINS)
