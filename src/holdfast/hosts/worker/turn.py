"""The draft of a turn: the events it adds and what the run does after it."""

from __future__ import annotations

from holdfast.errors import HoldfastError
from holdfast.hosts.worker import updates
from holdfast.hosts.worker.family import Family
from holdfast.model.asks import Ended, StepAsk
from holdfast.model.commands import CommitTurn
from holdfast.model.events import Event, EventKind, Failure
from holdfast.model.failures import encode_failure, failure_of, in_a_line
from holdfast.model.makers import maker
from holdfast.model.run import Message, Run
from holdfast.model.status import RunStatus
from holdfast.model.waits import Waits
from holdfast.model.writes import Free, Replied, Send

CLOSES: dict[str, EventKind] = {
    "completed": "run.completed",
    "failed": "run.failed",
    "cancelled": "run.cancelled",
    "timed_out": "run.timed_out",
    "compensation_failed": "run.compensation_failed",
}

NO_SENDS: list[Send] = []
"""Shared by all that send nothing, as most do; never changed."""

_new_event, _new_command = maker(Event), maker(CommitTurn)


class Draft:
    """One turn before its commit. Every event is numbered as it is added."""

    # In the class, so that nothing has to be set for a turn that only adds events, as most do.
    sends = NO_SENDS
    replies: tuple[Replied, ...] = ()
    status: RunStatus = "running"
    continues = False
    intends: tuple[StepAsk, ...] = ()
    supersedes: tuple[int, ...] = ()
    superseded_by = 0
    waits: Waits | None = None
    _inbox_read: int | None = None
    _messages: tuple[int, ...] = ()
    _parks_at: int | None = None
    _wake_at: int | None = None
    _reason = ""
    _due = 0

    def __init__(
        self, run: Run, seq: int, at: int, family: Family | None = None, ticketed: bool = False
    ) -> None:
        self.run, self._seq, self.at = run, seq, at
        self.family, self.ticketed = family, ticketed
        self.events: list[Event] = []

    @property
    def has_changes(self) -> bool:
        """Tell whether there is anything to commit."""
        if self.events or self.status != "running" or self.supersedes:
            return True
        if self._inbox_read is not None or self.waits is not None:
            return True
        return bool(self.replies or self.sends)

    def add(self, event: Event) -> Event:
        """Number an event, and stamp it with the run's epoch and generation."""
        run, seq = self.run, self._seq + len(self.events) + 1
        numbered = _new_event((*event[:7], seq, run.epoch, run.generation, event.codec, None))
        self.events.append(numbered)
        return numbered

    def send(self, write: Send) -> None:
        """Have the commit carry this out too, on other rows than the run's."""
        self.sends = self.sends or []
        self.sends.append(write)

    def add_answer(self, ask: StepAsk, payload: bytes | None, took: int) -> Event:
        """Record a step's result."""
        run, events = self.run, self.events
        event = _new_event((
            "step.completed", self.at, ask.key, payload, ask.asked_seq, ask.digest, took,
            self._seq + len(events) + 1, run.epoch, run.generation, 0, None,
        ))  # fmt: skip
        events.append(event)
        return event

    def add_started(self, ask: StepAsk, number: int) -> Event:
        """Record that an attempt has been running for a while, for people to see."""
        payload = f'{{"attempt":{number}}}'.encode()
        return self.add(Event("step.started", self.at, ask.key, payload, ask.asked_seq, ask.digest))

    def add_message(self, message: Message) -> Event | None:
        """Move a message from the inbox into the history; some only count as read.

        The end of a child that the history does not know, or knows already, leaves no event.
        """
        self._messages = (*self._messages, message.n)
        if message.n > self.run.inbox_read:  # an undecided update may have been read long ago
            self._inbox_read = max(self._inbox_read or 0, message.n)
        if message.kind in ("update", "answer", "secret"):
            return None
        if message.kind == "child":
            closed = self.family.closed_by(message, self.at) if self.family is not None else None
            return None if closed is None else self.add(closed)
        if message.kind == "cancel":
            return self.add(Event("cancel.requested", self.at, message.id, message.payload))
        if message.kind == "pause":
            return self.add(Event("run.paused", self.at, message.id, message.payload))
        key = f"{message.name}/{message.id}"
        return self.add(Event("signal.received", self.at, key, message.payload))

    def add_timer(self, due: int, key: str, asked_seq: int) -> Event:
        """Record that a timer fired; the store checks its own clock against `due`."""
        self._due = max(self._due, due)
        return self.add(Event("timer.fired", self.at, key, str(due).encode(), asked_seq))

    def pass_deadline(self, due: int, payload: bytes) -> Event:
        """Record that the run's time is over; the store checks its own clock against `due`."""
        self._due = max(self._due, due)
        return self.add(Event("deadline.passed", self.at, payload=payload))

    def close(self, ended: Ended) -> None:
        """End the run as its body ended."""
        if ended.status == "continued":
            raise ValueError("a body that continues closes no run")
        payload = ended.payload
        if ended.failure is not None:
            payload = encode_failure(ended.failure)
            self._reason = in_a_line(ended.failure.type, ended.failure.message)
        self.status = ended.status
        closing = self.add(Event(CLOSES[ended.status], self.at, payload=payload))
        if self.family is not None:
            self.send(self.family.departure(self.run, closing))
        if self.ticketed:
            self.send(Free(self.run.ns, self.run.id))

    def block(
        self,
        error: HoldfastError,
        mail: tuple[Message, ...],
        notes: tuple[Event, ...],
        shape: bytes,
        wake_at: int | None = None,
    ) -> None:
        """Set the run aside until its code, which has this shape, or its data is mended.

        At `wake_at`, its deadline, it is looked at again.
        """
        self._keep(error, mail, notes)
        failure = failure_of(error)
        self.status, self._wake_at = "blocked", wake_at
        self._reason = f"{error.blocked_as}: {failure.message} [{error.code}]"
        self.add(Event("run.blocked", self.at, payload=encode_failure(failure), digest=shape))

    def expire(
        self,
        error: HoldfastError,
        mail: tuple[Message, ...],
        notes: tuple[Event, ...],
        failure: Failure,
        due: int,
    ) -> None:
        """End the run where it would have been blocked, because its deadline has passed."""
        self._keep(error, mail, notes)
        self._due = max(self._due, due)
        self.close(Ended("timed_out", failure=failure))

    def _keep(
        self, error: HoldfastError, mail: tuple[Message, ...], notes: tuple[Event, ...]
    ) -> None:
        """Keep what counts of a turn that cannot be made.

        Messages are always accepted. The answers of this turn count too, and `notes`, which the
        body said on the last of them, unless the error says that history and code disagree: steps
        need not run again when the code is mended, and the run follows the same changes.
        """
        if error.blames_history:
            self.events.clear()
            self.sends = NO_SENDS
            self._messages, self._due, self.replies = (), 0, ()
            notes = ()
        for note in notes:
            updates.add_note(self, note)
        for message in mail:
            if message.n not in self._messages:
                self.add_message(message)

    def park(self, wake_at: int | None, reason: str, inbox_seq: int) -> None:
        """Let the run wait without a worker, unless a message has come meanwhile."""
        self.status, self._wake_at, self._reason = "waiting", wake_at, reason
        self._parks_at = inbox_seq

    def pause(self, inbox_seq: int, wake_at: int | None) -> None:
        """Stop as asked, now that no step runs; a deadline goes on counting."""
        self.status, self._reason, self._wake_at = "paused", "paused", wake_at
        self._parks_at = inbox_seq

    def stay(self) -> None:
        """Keep the run after all."""
        self.status, self._wake_at, self._reason, self._parks_at = "running", None, "", None

    def command(self, worker: str, known_inbox: int) -> CommitTurn:
        """Return the commit of this turn."""
        run, parks_at, wake_at = self.run, self._parks_at, self._wake_at
        if self.waits is not None:
            if self.waits.overs:
                parks_at = known_inbox  # what nobody waits for any more must not have been answered
            if self.status == "waiting":
                wake_at = self.waits.first_due(wake_at)
        return _new_command((
            run.ns, run.id, worker, run.epoch, self._seq, tuple(self.events), self.at, self.status,
            self._reason, wake_at, self._inbox_read, parks_at, self._due, self.supersedes,
            self.superseded_by, known_inbox, None, self.continues, self.replies,
            tuple(self.sends), self.waits,
        ))  # fmt: skip
