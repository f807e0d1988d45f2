"""What a held run waits for from outside: as its body has it, and as the store has it.

Before each commit the two are compared: what the body newly asks for becomes a row, in that commit,
and what it no longer asks for is over. An answer is kept in its row by whoever gave it; the message
in the inbox only tells of it. So an answer that a former turn could not use is still there for the
next one, and a row that is over was never answered: a turn that ends one is refused if a message
has come meanwhile.
"""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Iterator, Mapping
from types import new_class
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.errors import HoldfastError, NonRetryable, StepTimedOut
from holdfast.hosts.worker import queued
from holdfast.hosts.worker.attempts import options_of
from holdfast.hosts.worker.steps import Result
from holdfast.hosts.worker.turn import Draft
from holdfast.machine.questions import Question
from holdfast.model.asks import StepAsk
from holdfast.model.events import Event
from holdfast.model.jobs import Job, Took, report_in, took_in
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.waits import (
    Asked,
    Wait,
    WaitKind,
    Waits,
    answered,
    asked_of,
    failure_in,
    token_in,
)

if TYPE_CHECKING:
    from holdfast.hosts.worker.feeding import Feeding

log = logging.getLogger("holdfast.worker")

SECRET = 16
"""Bytes that nobody guesses."""
DEFERRED = "deferred/"
"""How the message begins that tells that a job has left its outcome to a token."""
FEW_OF = 16
"""Of so many rows, one that was settled is read by itself; of fewer, all are."""
NEVER = 1 << 62
"""A job that is being looked at needs no other look."""


class Deferred(NamedTuple):
    """A step whose code has ended, and whose outcome comes from outside."""

    attempt: int
    due: int | None
    asked_at: int
    began_at: int


class Waiting:
    """The rows of one run, and its deferred steps. Most runs have none of it."""

    __slots__ = ("_left", "_looks", "_session", "deferred", "jobs", "rows")

    def __init__(self, session: Feeding) -> None:
        self._session = session
        self.rows: dict[str, Wait] = {}
        self.deferred: dict[str, Deferred] = {}
        self.jobs: frozenset[str] | None = None
        """The keys of the jobs that the store holds; None if that was not read."""
        self._left: tuple[str, ...] = ()
        """Jobs that somebody else has settled, and that nobody needs to do any more."""
        self._looks: dict[str, int] = {}
        """When a job that was late is looked at again."""

    # --- reading

    def learn(self, rows: list[Wait], jobs: frozenset[str] | None = None) -> None:
        """Take what the store holds; the jobs as they were before the rows were read."""
        self.rows, self.jobs = {row.key: row for row in rows}, jobs

    def relearn(self, key: str, rows: list[Wait]) -> None:
        """Take what the store holds under a key, if anything."""
        self.rows.pop(key, None)
        self.rows.update((row.key, row) for row in rows)

    def recall(self, deferred: Mapping[str, Deferred]) -> None:
        """Take which steps were deferred by the history; one without its row runs again."""
        asks = self._session.machine.asks
        self.deferred = {
            key: each
            for key, each in deferred.items()
            if key in asks and self._attempt_of(key) == each.attempt
        }

    def _attempt_of(self, key: str) -> int:
        row = self.rows.get(key)
        return row.attempt if row is not None and self._is_of_now(row) else 0

    def _is_of_now(self, row: Wait) -> bool:
        """Tell whether the row was not ended, nor written before the run was reopened."""
        return row.state != "over" and row.generation == self._session.run.generation

    def unheard(self, mail: tuple[Message, ...]) -> tuple[Message, ...]:
        """Return a message for each answer that is there, and whose message was read before.

        A run that was set aside has read its messages without using them.
        """
        told = {message.id for message in mail}
        awaited = [
            row for row in self.rows.values() if self._is_of_now(row) and self._is_awaited(row.key)
        ]
        answers = [
            Message(_id_of(row), "answer", row.key, None, row.settled_at or 0)
            for row in awaited
            if row.state == "answered"
        ]
        answers += [
            Message(f"{DEFERRED}{row.secret}", "answer", row.key, None, row.asked_at)
            for row in awaited
            if self.jobs is not None and row.kind == "job" and row.state == "open"
            if row.key not in self.jobs and row.key not in self._session.known_deferred()
        ]
        return tuple(message for message in answers if message.id not in told)

    @property
    def has_jobs(self) -> bool:
        """Tell whether the body waits for what other workers do."""
        return bool(queued.keys(self._session.machine))

    def elsewhere(self) -> set[str]:
        """Return the steps that are in the hands of others."""
        asks = self._session.machine.asks
        jobs = queued.keys(self._session.machine)
        return {*self.deferred, *(key for key in jobs if not self._is_unsure(asks[key]))}

    def ours(self, asks: list[StepAsk]) -> list[StepAsk]:
        """Return the steps that begin here: jobs only to be looked for in the cache."""
        return [ask for ask in asks if not queued.is_job(ask) or self._is_unsure(ask)]

    def _is_unsure(self, ask: StepAsk) -> bool:
        """Tell whether a job may not be needed, because its result is in the cache."""
        if options_of(ask).cache is None or self._attempt_of(ask.key):
            return False
        return self._session.recalling().is_open(ask, self._due_attempt(ask.key))

    # --- answers

    def current(self, results: list[Result]) -> list[Result]:
        """Leave out the results of attempts that somebody outside has ended."""
        return [each for each in results if each.number == self._due_attempt(each.ask.key)]

    def _due_attempt(self, key: str) -> int:
        retrying = self._session.retrying(key)
        return 1 if retrying is None else retrying.attempts + 1

    def hear(self, draft: Draft, message: Message) -> None:
        """Show the body an answer that has come, unless it no longer waits for it."""
        machine = self._session.machine
        draft.add_message(message)
        row = self.rows.get(message.name)
        if message.id.startswith(DEFERRED):
            self._hear_deferred(draft, message, row)
            return
        if row is None or row.answer is None or message.id != _id_of(row):
            self._turn_down(draft, message.name, "", "it was asked anew meanwhile")
            return
        if not self._is_of_now(row):
            self._turn_down(draft, row.key, row.by, "the run has begun anew meanwhile")
            return
        del self.rows[row.key]
        question = machine.outside.questions.get(row.key) if machine.outside else None
        if question is not None and machine.ended is None:
            self._answer(draft, question, row, row.answer)
        elif row.key in machine.asks and machine.ended is None:
            self._end_step(draft, message, row, row.answer)
        else:
            self._turn_down(draft, row.key, row.by, "the run no longer waits for it")

    def _end_step(self, draft: Draft, message: Message, row: Wait, answer: bytes) -> None:
        """Show the body the outcome of a step: by a token, or of a job."""
        session, told = self._session, took_in(message.payload)
        ask, deferred = session.machine.asks[row.key], self.deferred.pop(row.key, None)
        since = session.asked_at(ask) if deferred is None else deferred.asked_at
        ask = ask._replace(asked_at=since)
        if (running := session.running.pop(row.key, None)) is not None:
            running.stop()
        if row.kind == "job" and told is None:
            self._left = (*self._left, row.key)  # it came by the token, or its word is lost
        if told is not None and told.beats:
            session.notes().expect(row.key)
        if options_of(ask).cache is not None:
            session.recalling()
        took = max(draft.at - row.asked_at, 0) if told is None else told.took
        session.feed_result(draft, _result(ask, row, answer, took))

    def _hear_deferred(self, draft: Draft, message: Message, row: Wait | None) -> None:
        """Note that the code of a job has ended, and its outcome comes by its token."""
        ask = self._session.machine.asks.get(message.name)
        if row is None or message.id != f"{DEFERRED}{row.secret}" or row.state != "open":
            return
        if ask is None or not self._is_of_now(row) or self._session.machine.ended is not None:
            return
        told = took_in(message.payload) or Took()
        if told.beats:
            self._session.notes().expect(row.key)
        ask = ask._replace(asked_at=self._session.asked_at(ask))
        self.defer(draft, Result(ask, row.attempt, told.took))

    def _answer(self, draft: Draft, question: Question, row: Wait, value: bytes) -> None:
        try:
            question.decode(value)
        except HoldfastError as error:  # it is asked anew: the row is gone
            self._turn_down(draft, row.key, row.by, str(error.args[0]))
            return
        seq, payload = question.asked_seq, answered(row.by, value)
        event = Event("question.answered", draft.at, row.key, payload, seq, question.digest)
        self._session.feed(draft, draft.add(event))

    def _turn_down(self, draft: Draft, key: str, by: str, why: str) -> None:
        run = self._session.run.id
        log.warning("an answer to %s of run %s was not used: %s", key, run, why)
        told = json.dumps({"by": by, "why": why}, ensure_ascii=False).encode()
        self._session.machine.feed(draft.add(Event("answer.unused", draft.at, key, told)))

    # --- steps that others complete

    def defer(self, draft: Draft, result: Result) -> None:
        """Note that a step has ended and its outcome will come from outside."""
        ask, began = result.ask, draft.at - result.took
        options = options_of(ask)
        dues = [began + options.timeout] if options.timeout is not None else []
        if options.total_timeout is not None:
            dues.append(ask.asked_at + options.total_timeout)
        due = min(dues, default=None)
        self.deferred[ask.key] = Deferred(result.number, due, ask.asked_at, began)
        fields = {"attempt": result.number, "due": due, "asked_at": ask.asked_at, "began_at": began}
        event = Event(
            "step.deferred", draft.at, ask.key, json.dumps(fields).encode(), ask.asked_seq,
            ask.digest, result.took,
        )  # fmt: skip
        self._session.machine.feed(draft.add(event))

    def expire(self, draft: Draft) -> None:
        """End the attempts whose outcome has not come in time."""
        for key, each in tuple(self.deferred.items()):
            ask = self._session.machine.asks.get(key)
            if ask is None:
                del self.deferred[key]
            elif each.due is not None and each.due <= draft.at:
                del self.deferred[key]
                took = draft.at - each.began_at
                message = f"nobody completed it in {took / 1e6:g} s"
                error = StepTimedOut(
                    step=key, type="StepTimedOut", message=message, attempts=each.attempt
                )
                ask = ask._replace(asked_at=each.asked_at)
                self._session.feed_result(draft, Result(ask, each.attempt, took, error=error))
        for row in self._late(draft.at):
            self._looks[row.key] = NEVER
            self._session.look_at_job(row, self._looks)

    def next_due(self) -> list[int]:
        """Return when steps that nobody has completed, or begun, time out."""
        dues = [each.due for each in self.deferred.values() if each.due is not None]
        return dues + [self._look_at(row) for row in self._limited()]

    def _late(self, now: int) -> list[Wait]:
        """Return jobs that should have begun by now, or been over."""
        return [row for row in self._limited() if self._look_at(row) <= now]

    def _limited(self) -> list[Wait]:
        """Return jobs that have to begin, or to be over, by some time."""
        timed = [row for row in self.rows.values() if row.expires_at is not None]
        return [row for row in timed if self._is_limited(row)]

    def _look_at(self, row: Wait) -> int:
        return max(row.expires_at or 0, self._looks.get(row.key, 0))

    def _is_limited(self, row: Wait) -> bool:
        is_open = row.kind == "job" and row.state == "open"
        return is_open and row.key not in self.deferred and self._looks.get(row.key) != NEVER

    def token(self, key: str) -> str:
        """Return what names this attempt of the step to whoever completes it; empty if none can."""
        row = self.rows.get(key)
        return "" if row is None else token_in(row)

    # --- before and after a commit

    def settle(self, draft: Draft) -> None:
        """Add to the turn what is newly waited for, and what is over."""
        if draft.continues:
            self.deferred = {}
        is_over = draft.continues or draft.status in CLOSED
        wanted = {} if is_over else self._wanted(draft.at)
        known = self.rows.get
        opens = tuple(
            row for key, row in wanted.items() if (was := known(key)) is not row and was != row
        )
        overs = tuple(
            (row.key, self._why(row, draft))
            for row in self.rows.values()
            if row.state == "open" and row.key not in wanted
        )
        jobs = tuple(self._jobs(opens, draft.at))
        new = {job.key for job in jobs}
        gone = {row.key for row in self.rows.values() if row.kind == "job" and row.state == "open"}
        drops = tuple(
            key for key in (*self._left, *(key for key, _ in overs if key in gone))
            if key not in new
        )  # fmt: skip
        if not opens and not overs and not drops:
            return
        for key in drops:  # it may have left heartbeats, of which nobody here has heard
            self._session.notes().expect(key)
        for row in opens:
            if row.kind == "question":
                told = _told(row)
                self._session.machine.feed(
                    draft.add(Event("question.asked", draft.at, row.key, told))
                )
        draft.waits = Waits(opens, overs, jobs, drops)

    def _jobs(self, opens: tuple[Wait, ...], now: int) -> Iterator[Job]:
        """Yield what other workers are to do for the rows that are new."""
        session = self._session
        for row in opens:
            known = self.rows.get(row.key)
            if row.kind == "job" and (known is None or known.secret != row.secret):
                ask = session.machine.asks[row.key]
                session.has_job_of(ask.step)
                yield queued.job_of(session, ask, row, session.asked_at(ask))

    def kept(self, waits: Waits) -> None:
        """The turn is stored."""
        self._left = tuple(key for key in self._left if key not in waits.drops)
        for key, _ in waits.overs:
            self.rows.pop(key, None)
        for job in waits.jobs:
            self._looks.pop(job.key, None)
        self.rows.update((row.key, row) for row in waits.opens)

    def _wanted(self, now: int) -> dict[str, Wait]:
        """Return the rows there must be, each as it is if it still fits."""
        outside = self._session.machine.outside
        if outside is None:
            return {}
        rows = {key: self._row_of(question) for key, question in outside.questions.items()}
        for key in outside.steps():
            if (row := self._row_of_step(key, now)) is not None:
                rows[key] = row
        return rows

    def _row_of(self, question: Question) -> Wait:
        known, run = self.rows.get(question.key), self._session.run
        if known is not None and self._is_of_now(known):
            if known.state == "answered":
                return known  # its message is on its way
            return known._replace(
                to=question.to, expires_at=question.expires_at, asked=question.asked()
            )
        return Wait(
            run.ns, run.id, question.key, "question", run.generation, 0,
            secrets.token_urlsafe(SECRET), "open", question.asked_at, question.expires_at,
            question.to, question.asked(),
        )  # fmt: skip

    def _row_of_step(self, key: str, now: int) -> Wait | None:
        session, run, ask = self._session, self._session.run, self._session.machine.asks[key]
        attempt, expires_at = self._due_attempt(key), None
        kind: WaitKind = "step"
        known = self.rows.get(key)
        if known is not None and self._attempt_of(key) == attempt:
            if known.state == "answered" or key not in self.deferred:
                return known
            return known._replace(expires_at=self.deferred[key].due)
        if queued.is_job(ask):
            if session.paused or self._is_unsure(ask):
                return None  # nothing new begins, here or elsewhere
            kind, begins = "job", queued.wake_at(session.retrying(key), now)
            expires_at = queued.start_by(ask, session.asked_at(ask), begins)
        elif not ask.step.completes_later:
            return None
        asked = Asked(f"the outcome of step {key}", None, _schema_of(ask))
        return Wait(
            run.ns, run.id, key, kind, run.generation, attempt,
            secrets.token_urlsafe(SECRET), "open", now, expires_at, (), asked.encoded(),
        )  # fmt: skip

    def _is_awaited(self, key: str) -> bool:
        machine = self._session.machine
        return key in machine.asks or key in machine.awaited_answers()

    def _why(self, row: Wait, draft: Draft) -> str:
        if row.expires_at is not None and row.expires_at <= draft.at:
            return "it timed out"
        if draft.continues:
            return "the run has continued as new"
        if draft.status in CLOSED:
            return f"the run is {draft.status.replace('_', ' ')}"
        return "the run no longer waits for it"


def has_answers(mail: tuple[Message, ...]) -> bool:
    """Tell whether something that was asked outside is settled by one of these messages."""
    return any(message.kind == "answer" for message in mail)


def _schema_of(ask: StepAsk) -> dict[str, Any]:
    """Return what an outcome from outside must fit; a worker that does the job knows by itself."""
    found: dict[str, Any] = {}
    if ask.step.completes_later:
        found = ask.step.signature.result.json_schema()
    return found


def _told(row: Wait) -> bytes:
    """Return what the history says of a question: the rest is in its row."""
    fields = {"question": asked_of(row).question, "to": row.to, "expires_at": row.expires_at}
    return json.dumps(fields, ensure_ascii=False).encode()


def _id_of(row: Wait) -> str:
    return f"answer/{row.secret}"


def _result(ask: StepAsk, row: Wait, answer: bytes, took: int) -> Result:
    """Return what somebody outside said came of an attempt."""
    if (told := failure_in(answer)) is not None:
        return Result(ask, row.attempt, took, error=report_in(told) or _error(**told))
    try:
        value = ask.step.signature.result.decode(answer, where=f"result of step {ask.key}")
    except HoldfastError as error:
        return Result(ask, row.attempt, took, error=error)
    return Result(ask, row.attempt, took, answer, value)


def _error(type: str, message: str, *, retry: bool) -> Exception:
    """Return an error of that name, so that it is stored as one that the step raised."""
    base = Exception if retry else NonRetryable
    made: Exception = new_class(type, (base,))(message)
    return made
