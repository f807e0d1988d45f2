"""Writes that come alone, as most do when little happens: a turn, a start.

Each is one statement, a third cheaper than a round of one. A write that is refused returns no row,
and is then written the way that tells why.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Protocol

from holdfast.model.events import Event
from holdfast.model.labels import NO_LABELS
from holdfast.model.makers import maker
from holdfast.model.queues import DEFAULT_QUEUE
from holdfast.model.status import CLOSED
from holdfast.model.writes import Advance, Create, Notice, Outcome, Write
from holdfast.stores.notices import start_notice, turn_notice
from holdfast.stores.plain import is_plain
from holdfast.stores.postgres.rounds import born, kept
from holdfast.stores.postgres.statements import Statement, fragments, queries, statement

SQL = queries()
_new_outcome = maker(Outcome)


def _turn_with(events: str) -> Statement:
    text = fragments()
    return statement("\n".join((text["lone_turn"], text[events], text["lone_answer"])))


WITH_EVENT, WITH_EVENTS = _turn_with("lone_event"), _turn_with("lone_events")


class Lone(Protocol):
    """A write with a statement of its own. One that `goes_on` changes nothing others wait for."""

    goes_on: ClassVar[bool]

    @property
    def notice(self) -> Notice:
        """What listeners hear once it is applied."""
        ...

    def question(self, now: int | None) -> tuple[Statement, Sequence[object]]:
        """Return the statement and what is bound in its places."""
        ...

    def outcome(self, row: Sequence[Any]) -> Outcome:
        """Return what became of it, by the row that the statement returned."""
        ...


def lone_of(batch: Sequence[Write]) -> Lone | None:
    """Return the one write of a batch, if it has a statement of its own."""
    if len(batch) != 1:
        return None
    write = batch[0]
    if type(write) is Advance:
        if write.status == "running" and is_plain(write) and PlainTurn.fits(write):
            return PlainTurn(write)
        is_alone = write.events and not write.supersedes and write.annotations is None
        beside = write.continues or write.replies or write.sends or write.waits
        return Turn(write) if is_alone and not beside else None
    if type(write) is Create:
        is_bare = write.labels is NO_LABELS and write.defines is None
        is_bare = is_bare and write.queue == DEFAULT_QUEUE
        is_bare = is_bare and write.message is None and not write.secrets
        return Start(write) if is_bare else None
    return None


class PlainTurn:
    """One turn that only adds one event, or two, to a run that goes on."""

    __slots__ = ("_write",)
    goes_on: ClassVar[bool] = True

    def __init__(self, write: Advance) -> None:
        self._write = write

    @staticmethod
    def fits(write: Advance) -> bool:
        """Tell whether its events are stamped as the turn is: then that is not sent again."""
        events, epoch = write.events, write.epoch
        first, last, count = events[0], events[-1], len(events)
        if count > 2 or first.at != write.at or last.seq != write.seq + count:
            return False
        return first.seq == write.seq + 1 and first.epoch == last.epoch == epoch

    @property
    def notice(self) -> Notice:
        """What listeners hear once it is applied."""
        return turn_notice(self._write)

    def question(self, now: int | None) -> tuple[Statement, Sequence[object]]:
        """Return the statement and what is bound in its places."""
        write, (first, *others) = self._write, self._write.events
        where = (write.at, write.ns, write.run, write.owner, write.epoch, write.seq)
        kind, _, key, payload, asked_seq, digest, took, _, _, _, codec, _ = first
        if not others:
            told = (kind, key, asked_seq, took, digest, codec, payload)
            return SQL.plain_turn, (*where, *told)
        kind2, at2, key2, payload2, asked_seq2, digest2, took2, _, _, _, codec2, _ = others[0]
        return SQL.plain_pair, (
            *where, kind, key, payload, asked_seq, digest, took, codec,
            kind2, at2, key2, payload2, asked_seq2, digest2, took2, codec2,
        )  # fmt: skip

    def outcome(self, row: Sequence[Any]) -> Outcome:
        """Return what became of it, by the row that the statement returned."""
        return _new_outcome((True, None, row[0], row[1], 0, "", ()))


class Turn:
    """One turn that only adds events."""

    __slots__ = ("_write",)
    goes_on: ClassVar[bool] = False

    def __init__(self, write: Advance) -> None:
        self._write = write

    @property
    def notice(self) -> Notice:
        """What listeners hear once it is applied."""
        return turn_notice(self._write)

    def question(self, now: int | None) -> tuple[Statement, list[object]]:
        """Return the statement and what is bound in its places."""
        write, held = self._write, self._write.status == "running"
        events, asked, values = write.events, WITH_EVENT, dict[str, object]()
        if len(events) == 1:
            values = events[0]._asdict()
        else:
            # The events as columns: one array a place.
            asked = WITH_EVENTS
            values.update(zip(Event._fields, zip(*events, strict=True), strict=True))
        values |= {
            "ns": write.ns, "run": write.run, "owner": write.owner, "held_epoch": write.epoch,
            "known_seq": write.seq, "count": len(events),
            "status": write.status, "reason": "" if held else kept(write.reason),
            "wake_at": None if held else write.wake_at,
            "inbox_read": write.inbox_read, "inbox_seq": write.inbox_seq,
            "takes_cancel": write.takes_cancel, "progresses": write.progresses,
            "updated_at": write.at, "not_before": write.not_before, "now": now,
            "closed_at": write.at if write.status in CLOSED else None,
        }  # fmt: skip
        return asked, asked.bound(values)

    def outcome(self, row: Sequence[Any]) -> Outcome:
        """Return what became of it, by the row that the statement returned."""
        return Outcome(True, None, row[0], row[1])


class Start:
    """A start without labels, of a definition that is known."""

    __slots__ = ("_run", "_write")
    goes_on: ClassVar[bool] = False

    def __init__(self, write: Create) -> None:
        self._write, self._run = write, born(write)

    @property
    def notice(self) -> Notice:
        """What listeners hear once it is applied."""
        return start_notice(self._write)

    def question(self, now: int | None) -> tuple[Statement, list[object]]:
        """Return the statement and what is bound in its places."""
        event = self._write.event
        values: dict[str, object] = self._run._asdict()
        values |= {
            "kind": event.kind, "key": event.key, "payload": event.payload, "took": event.took,
            "asked_seq": event.asked_seq, "digest": event.digest, "codec": event.codec,
        }  # fmt: skip
        return SQL.create_run, SQL.create_run.bound(values)

    def outcome(self, row: Sequence[Any]) -> Outcome:
        """Return what became of it, by the row that the statement returned."""
        return Outcome(True, self._run)
