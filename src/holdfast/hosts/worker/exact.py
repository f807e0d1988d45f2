"""Transactional steps: each is a turn of its own, made while the store writes it.

    the step is asked for -> no commit is on its way -> the store: begin, the function, the turn
    that records its result, commit -> the body is fed what is stored -> a turn of what it does then

What the function wrote and its record are one commit, under the run's epoch: whoever has lost the
run has written nothing. So the body is fed after the commit, which is safe here: while the function
runs no other turn of this run is made, and its answer comes alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from holdfast.errors import HoldfastError, PayloadTooLarge, StoreError
from holdfast.hosts.worker import attempts
from holdfast.hosts.worker.calling import timed_out
from holdfast.hosts.worker.plain import Plain
from holdfast.hosts.worker.steps import Result, StepRun, nobody
from holdfast.hosts.worker.turn import Draft
from holdfast.kernel import commit
from holdfast.model.asks import StepAsk
from holdfast.model.commands import CommitTurn
from holdfast.model.events import Event
from holdfast.model.run import Run
from holdfast.model.sizes import WITHOUT_BLOBS
from holdfast.model.writes import Advance, Outcome
from holdfast.ports.transaction import Overdue, Transaction, WorkFailed

if TYPE_CHECKING:
    from holdfast.hosts.worker.worker import Worker

IN_A_TABLE = (
    "A transaction's result stays in its row: write the data to a table of yours, in the same "
    "transaction, and return its key."
)


class TransactionRun(StepRun):
    """One attempt of a transactional step. Once the store has it, it goes to its end."""

    __slots__ = ()

    def stop(self) -> None:
        """Have nobody wait for this attempt any more."""
        self.settle = nobody

    def beat(self, details: bytes | None) -> None:
        """Say nothing: it is over before anybody could miss it."""


class Recording:
    """The work of one attempt, as a store does it: perhaps twice, perhaps in another thread."""

    def __init__(
        self, step: TransactionRun, draft: Callable[[], Draft], worker: str, inbox_seq: int
    ) -> None:
        self._step, self._draft = step, draft
        self._worker, self._inbox_seq = worker, inbox_seq
        self._clock = asyncio.get_running_loop().time
        self.began = self._clock()
        self.value: Any = None
        self.event: Event
        self.command: CommitTurn

    def begin(self, context: Context) -> Callable[[Transaction], Advance]:
        """Return the work, which has this attempt for its current one."""
        return lambda given: context.copy().run(self._do, given)

    def took(self) -> int:
        """Return how long it has taken, in microseconds."""
        return round((self._clock() - self.began) * 1e6)

    def _do(self, given: Transaction) -> Advance:
        self.began = self._clock()
        ask, step = self._step.ask, self._step.ask.step
        args, kwargs = step.signature.decode(ask.args)
        value = step.function(given, *args, **kwargs)
        where = f"result of step {ask.key}"
        payload, self.value = step.signature.result.cross(value, where=where)
        if len(payload) > WITHOUT_BLOBS:
            # A blob would be put in the middle of the transaction, and others wait for that.
            raise PayloadTooLarge(
                where=where, size=len(payload), limit=WITHOUT_BLOBS, hint=IN_A_TABLE
            )
        draft = self._draft()
        self.event = draft.add_answer(ask, payload, self.took())
        self.command = draft.command(self._worker, self._inbox_seq)
        return commit.decide(self.command)


class Exact(Plain):
    """One held run, whose transactional steps take effect exactly once."""

    __slots__ = ("_transactions",)

    def __init__(self, worker: Worker, run: Run) -> None:
        super().__init__(worker, run)
        self._transactions: tuple[TransactionRun, ...] = ()

    def _start_one(self, ask: StepAsk, number: int) -> None:
        # A fake of one is async, and an ordinary step.
        if attempts.options_of(ask).transacts and not ask.step.is_async:
            self._queue(ask, number)
        else:
            super()._start_one(ask, number)

    def _queue(self, ask: StepAsk, number: int) -> None:
        """Have the step done as soon as no turn is on its way."""
        ask = self._timed(ask)
        limit = attempts.limit_of(ask, self._stamp)
        step = TransactionRun(self.run, ask, number, limit, self.settle, self.show)
        step.session = self
        self.running[ask.key] = step
        self._transactions = (*self._transactions, step)
        self.poke()

    async def _look_around(self) -> None:
        await super()._look_around()
        if not self._transactions or self._is_held_back:
            return  # a store that takes writes again has us look again
        if not (self._flight or self._errand or self._must_read) and self.state == "held":
            step, *others = self._transactions
            self._transactions = tuple(others)
            if self.running.get(step.key) is step and step.key in self.machine.asks:
                await self._transact(step)
        self.poke()  # also when another turn is on its way: after it, the next

    async def _transact(self, step: TransactionRun) -> None:
        """Have the store do the step and record it; go on from what came of it."""
        at, step.loop = self._stamp(), asyncio.get_running_loop()
        work = Recording(
            step, lambda: Draft(self.run, self.seq, at), self._worker.id, self.inbox_seq
        )
        limit = None if step.limit is None else step.limit() / 1e6
        try:
            outcome = await self._worker.store.transact(
                work.begin(self._worker.steps.context_of(step)), limit
            )
        except WorkFailed as failed:
            error = failed.error
            if isinstance(error, Overdue):
                error = timed_out(step, f"took longer than {limit:g} s, and was undone")
            self.settle(Result(step.ask, step.number, work.took(), error=error))
        except StoreError as error:
            self.running.pop(step.key, None)
            self._fail(error, [])
        else:
            self.running.pop(step.key, None)
            await self._take_recorded(work, outcome)

    async def _take_recorded(self, work: Recording, outcome: Outcome) -> None:
        if self._failures:
            self._recovered()
        answer = commit.read(work.command, outcome)
        if answer != "applied":
            self._refused(answer, [])
            return
        self.seq += 1
        self._passed(work.event.at, outcome)
        if self.run.strikes:
            self._clear_strikes()
        self._forget_attempts(work.event.key)
        if self._worker.observing is not None:
            self._worker.observing.committed(self.run, [work.event], work.event.at)
        try:
            self.machine.feed(work.event, work.value)
        except HoldfastError as error:
            await self._set_aside(error)
            return
        # What the body says on it is stored by the turn that is made now, and checked then.
        if self._worker.settings.paranoid and not self.machine.notes:
            await self._worker.check_replay(self.run, self.seq, self.machine)
        self._turn()
