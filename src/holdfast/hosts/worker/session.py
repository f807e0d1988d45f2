"""A session: one run in the hands of one worker, turn after turn.

    results arrive -> each still asked for? -> stamp, feed -> ONE commit -> start what is asked now

One turn is in flight at a time. The body may see a result before its commit; nobody else may:
steps start, and callers hear, after it. A turn whose commit is refused, fails or stays unknown
throws its machine away and reads the history again; the results it held are fed anew if the body
still asks for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from holdfast.errors import HistoryTooLong, HoldfastError, StoreError
from holdfast.hosts.worker import attempts, continuing, family, length, overdue, telling
from holdfast.hosts.worker.held import NO_RESULTS
from holdfast.hosts.worker.notebook import Notebook
from holdfast.hosts.worker.reading import Reading
from holdfast.hosts.worker.steps import Limit, Result, StepRun
from holdfast.hosts.worker.turn import Draft
from holdfast.kernel import dispatch
from holdfast.machine.afterwards import call_afterwards
from holdfast.machine.ending import unless_owed
from holdfast.model.asks import Ended, StepAsk, Turn
from holdfast.model.commands import CommitTurn
from holdfast.model.events import PROGRESS
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.writes import Outcome
from holdfast.ports.reply import Answered, Reply, tell

log = logging.getLogger("holdfast.worker")


class Session(Reading):
    """One held run. Make it with `Worker`, and give it to its `hands`."""

    __slots__ = ()

    # --- what has come

    async def drive(self) -> None:
        """Do what has to be awaited, and make turns of what has come, until nothing is left to do.

        Most turns are made without: where the last result came, or where the run begins.
        """
        self._stop_alarm()
        while self.state == "held":
            if self._errand is not None:
                errand, self._errand = self._errand, None
                await errand()
            elif self._look and self._flight is None:
                self._look = False
                await self._look_around()
            else:
                self._wait()
                break
        self._is_driven = False

    async def _look_around(self) -> None:
        """Read what has to be read, and make a turn of all that has come."""
        if self._must_read and not await self._reread():
            return
        if self._mail_came and not await self._read_mail():
            return
        self._turn()

    async def _reread(self) -> bool:
        """Know the run again as it is stored. Return whether it is still ours, and can go on."""
        is_new = self._born is not None
        if (loaded := await self._read()) is None:
            return False
        self._worker.live()
        try:
            self._take_in(loaded)
        except HoldfastError as error:
            await self._set_aside(error)
            return False
        return await self._recall_waits(is_new=is_new)

    def begin(self) -> None:
        """Make the first turn of a run that was born here, unless there is more to look at."""
        born = self._born
        if born is None or self._mail_came:
            self.poke()
        if born is None or self._is_driven or self.state != "held":
            return
        self._look = False
        try:
            self._take_in_born(born)
        except HoldfastError as error:
            self._send(partial(self._set_aside, error))
        except Exception as error:
            self._break(error)
        else:
            self._turn_now()

    def settle(self, result: Result) -> None:
        """Take the result of an attempt into the next turn.

        If it is all there is to do, that turn is made here and now: it need not be waited for.
        """
        self.running.pop(result.ask.key, None)
        self._results = self._results or []
        self._results.append(result)
        if self.running or self._look or self._flight or self._is_driven:
            self.poke()
        else:
            self._turn_now()

    def _turn_now(self) -> None:
        try:
            self._turn()
        except Exception as error:
            self._break(error)

    def _break(self, error: Exception) -> None:
        """Have `drive` fail with what failed in the hands of somebody who has no part in it."""
        self._send(partial(_raise, error))

    def _turn(self) -> None:
        """Feed what is ready, commit it, and start what the body asks for now."""
        draft = Draft(self.run, self.seq, self._stamp(), self.family, self.ticketed)
        if self._superseded is not None:
            draft.supersedes, draft.superseded_by = self._superseded
        results, self._results = self._results, NO_RESULTS
        mail, self._mail = self._mail, ()
        if self.machine.notes:
            self._note(draft)
        try:
            self._feed(draft, results, mail)
            turn = self._take_turn(draft)
        except HoldfastError as error:
            self._block(draft, error, mail)
            turn = Turn()
        self._finish(draft, turn, results)

    def _finish(self, draft: Draft, turn: Turn, results: list[Result]) -> None:
        """Commit what came of a turn, if there is anything to commit."""
        self._conclude(draft, turn)
        if self.waits is not None or self.machine.outside is not None:
            self._settle_waits(draft)
        if draft.events or draft.has_changes:
            self._commit(draft, turn, results)
        else:
            self._drop(turn.dropped)
            self._start(turn.asks)
            if not self._is_driven:
                self._rest()

    def _conclude(self, draft: Draft, turn: Turn) -> None:
        """Decide what the run does next: close, stop for a pause, park, or stay."""
        if turn.ended is not None:
            self._end(draft, turn.ended)
        elif draft.status != "running":
            return
        elif self.seq >= self._long_at and self._is_too_long():
            before = self.machine.base - 1
            told = HistoryTooLong(events=self.seq - before, limit=self._long_at - before)
            self._block(draft, told, ())
        elif self.cancelled_at is not None and self._is_forced(draft.at):
            ended = unless_owed(Ended("cancelled"), self.machine)
            draft.close(overdue.ending(ended, self.run, self._overdue))
        elif not (draft.intends or self._is_busy(turn)):
            self._settle_down(draft)

    def _end(self, draft: Draft, ended: Ended) -> None:
        if ended.status == "continued":
            shape = self._worker.workflow_of(self.run).shape
            # Lines of the new body's first turn are numbered from its start on.
            at = draft.at if self.notebook is None else max(draft.at, self.notebook.free_from)
            continuing.record(draft, self.machine, ended, shape, at, paused=self.paused)
        else:
            draft.close(overdue.ending(ended, self.run, self._overdue))
        telling.tell_leftovers(self.machine, ended)

    def _is_too_long(self) -> bool:
        before, limit = self.machine.base - 1, self._worker.settings.history
        self._long_at = before + length.notice(self.run.id, self.seq - before, limit)
        return self.seq >= self._long_at

    def _is_busy(self, turn: Turn) -> bool:
        """Tell whether steps run, or are about to."""
        if (turn.asks or self._is_held_back) and not (self.paused or self.draining):
            return True
        if self.needs is not None and self.needs.is_fetching:
            return True
        if self.recalls is not None and self.recalls.pending:
            return True
        return bool(self.running and self.running.keys() - turn.dropped)

    def _settle_down(self, draft: Draft) -> None:
        if self.paused:
            draft.pause(self.inbox_seq, self._deadline)
        elif self.draining:
            draft.park(draft.at, "released", self.inbox_seq)  # any worker may go on at once
        elif not self._wakes_soon(draft.at):
            draft.park(self._wake_at(), self._reason(), self.inbox_seq)

    def _commit(self, draft: Draft, turn: Turn, results: list[Result]) -> None:
        """Send the turn to the store; until it has landed, no other is made."""
        command = draft.command(self._worker.id, self.inbox_seq)
        self._flight = (draft, turn, results, command)
        if self.notebook is None:
            self._write(command, self._land)
        else:
            self._send(partial(self._commit_with, self.notebook, *self._flight))

    async def _commit_with(
        self, notebook: Notebook, draft: Draft, turn: Turn, results: list[Result], bare: CommitTurn
    ) -> None:
        command = await notebook.onto(bare, turn.dropped)
        self._flight = (draft, turn, results, command)
        self._write(command, self._land)

    def _write(self, command: CommitTurn, land: Callable[[Answered[list[Outcome]]], None]) -> None:
        steps, answer = self._worker.steps, self._worker.store.write([dispatch.decide(command)])
        if not isinstance(answer, Reply):
            tell(answer, land)
        elif steps.pushes and answer.is_pushable:
            steps.pushes, steps.unpushed = False, answer
            answer.hear(land)
        else:
            answer.tell(land)

    def _land(self, answer: Answered[list[Outcome]]) -> None:
        """Go on after a commit, whatever came of it."""
        flight, self._flight = self._flight, None
        if flight is None or self.state != "held":
            return  # the session has ended meanwhile
        try:
            (outcome,) = answer.result()
            self._take_outcome(outcome, *flight)
        except asyncio.CancelledError:
            return  # the event loop is being taken down
        except StoreError as error:
            self._fail(error, flight[2])
        except Exception as error:
            self._break(error)
        if self._visitors is not None and self._flight is None:
            self._receive_visitors(self._visitors)
        if not self._is_driven:
            self._rest()

    @property
    def is_over(self) -> bool:
        """Tell whether the run is out of our hands, though its last turn may still be checked."""
        flight = self._flight
        if flight is None or self.state != "held":
            return self.state != "held"
        draft, _, _, command = flight
        return command.seq < self.seq and draft.status in CLOSED

    def _rest(self) -> None:
        """Be out of hand, or look again, or wait for the next timer: nobody drives the run."""
        if self.state != "held":
            self._worker.hands.release(self)
        elif self._look:
            self.poke()
        elif self._flight is None:
            self._wait()

    def _fail(self, error: StoreError, results: list[Result]) -> None:
        self._worker.health.failed(error, self.run.id)
        self._throw_away(results)
        self._send(partial(self._worker.be_patient, self._failures))
        self._failures += 1

    def _take_outcome(
        self, outcome: Outcome, draft: Draft, turn: Turn, results: list[Result], command: CommitTurn
    ) -> None:
        if self._failures:
            self._recovered()
        if not outcome.applied:
            self._take_refusal(outcome, draft, turn, results, command)
            return
        self.seq += len(draft.events)
        if self._worker.settings.paranoid and draft.status != "blocked":
            self._flight = (draft, turn, results, command)
            self._send(partial(self._check, outcome, draft, turn))
        else:
            self._go_on(draft, turn, outcome)

    def _take_refusal(
        self, outcome: Outcome, draft: Draft, turn: Turn, results: list[Result], command: CommitTurn
    ) -> None:
        answer: str = dispatch.read(command, outcome)
        if answer == "mail" and draft.waits is not None and draft.waits.overs:
            self._throw_away(results)  # what came may be the answer that this turn gave up
        elif answer == "mail":
            draft.stay()
            self.mail_came()
            self._commit(draft, turn, results)
        elif answer == "early":
            # The store's clock went back, or we were ahead of it: not again at once.
            self._throw_away(results)
            self._send(partial(self._worker.be_patient, 0))
        elif answer == "taken":
            family.refuse(self, outcome.taken)
            self._throw_away(results)
        else:
            self._refused(answer, results)

    async def _check(self, outcome: Outcome, draft: Draft, turn: Turn) -> None:
        await self._worker.check_replay(self.run, self.seq, self.machine)
        self._flight = None
        if self.state == "held":
            self._go_on(draft, turn, outcome)
        if self._visitors is not None:
            self._receive_visitors(self._visitors)

    def _go_on(self, draft: Draft, turn: Turn, outcome: Outcome) -> None:
        """Do what had to wait for the commit."""
        if self._worker.observing is not None:
            self._worker.observing.committed(self.run, draft.events, draft.at)
        if self.machine.afterwards is not None:
            call_afterwards(self.machine)
        self._superseded = None
        if self.notebook is not None or draft.waits is not None:
            self._kept(draft)
        self._passed(draft.at, outcome)
        if self.run.strikes and any(event.kind in PROGRESS for event in draft.events):
            self._clear_strikes()
        if turn.dropped:
            self._drop(turn.dropped)
        if draft.continues:
            self._begin_generation(self.run.generation + 1)
            self._is_new = True
            self.must_reread()
        elif draft.status == "running":
            self._start(turn.asks, draft.intends)
        else:
            self.state = "parked" if draft.status == "waiting" else "closed"

    def _kept(self, draft: Draft) -> None:
        """Note that what was written beside the history is stored."""
        if self.notebook is not None:
            self.notebook.kept()
        if draft.waits is not None:
            self.outside().kept(draft.waits)

    def _refused(self, answer: str, results: list[Result]) -> None:
        if answer == "lost":
            log.info("run %s was taken by another worker", self.run.id)
            self._worker.refusals += 1
            self.state = "lost"
        else:
            self._throw_away(results)

    def _throw_away(self, results: list[Result]) -> None:
        """Forget the turn: the machine has seen what was not stored."""
        self._results = results + self._results
        if self.notebook is not None:
            self.notebook.forget_turn()
        self.must_reread()

    # --- what cannot go on

    async def _set_aside(self, error: HoldfastError) -> None:
        """Block the run with the reason."""
        mail, self._mail = self._mail, ()
        draft = Draft(self.run, self.seq, self._stamp(), self.family, self.ticketed)
        self._block(draft, error, mail)
        await self._end_waits(draft)
        self._commit(draft, Turn(), [])

    async def give_up(self, error: HoldfastError) -> None:
        """Block the run after its session has failed, if that is still possible."""
        draft = Draft(self.run, self.seq, self._stamp(), self.family, self.ticketed)
        self._block(draft, error, self._mail)
        await self._end_waits(draft)
        command = draft.command(self._worker.id, self.inbox_seq)
        try:
            (outcome,) = await self._worker.store.write([dispatch.decide(command)])
        except StoreError as failure:  # it is found again among those held without a session
            log.warning("run %s could not be blocked: %s", self.run.id, failure)
        else:
            if outcome.applied and self._worker.observing is not None:
                self._worker.observing.committed(self.run, draft.events, draft.at)

    def _block(self, draft: Draft, error: HoldfastError, mail: tuple[Message, ...]) -> None:
        shape = self._worker.workflow_of(self.run).shape
        overdue.set_aside(draft, self.run, error, mail, self.machine.notes, shape)

    # --- steps

    def _start(self, asks: list[StepAsk], intended: tuple[StepAsk, ...] = ()) -> None:
        if intended:
            self._intents = ()
        for ask in intended:  # whatever was asked of us meanwhile: they count as begun
            self._begin_timed(ask, 1).is_shown = True
        if self.draining or self.paused or self._is_held_back:
            return
        for ask in asks:
            if attempts.is_plain(ask):
                self._begin(ask, 1, None)
            else:
                self._start_one(ask, 1)
        if self._retries or self.needs is not None:
            for ask, number in self._due_again():
                self._start_one(ask, number)

    def _start_one(self, ask: StepAsk, number: int) -> None:
        if ask.step.secrets and not self.needing().is_ready(ask, number):
            return
        options = attempts.options_of(ask)
        if options.cache is not None and not self.recalling().is_ready(ask, number):
            return
        if options.at_most_once:
            self._intents = (*self._intents, ask)
            self.poke()
        else:
            self._begin_timed(ask, number)

    def _begin_timed(self, ask: StepAsk, number: int) -> StepRun:
        if ask.asked_at < self._reopened_at:
            ask = self._timed(ask)
        return self._begin(ask, number, attempts.limit_of(ask, self._stamp))

    def _begin(self, ask: StepAsk, number: int, limit: Limit | None) -> StepRun:
        started = StepRun(self.run, ask, number, limit, self.settle, self.show)
        started.session, self.running[ask.key] = self, started
        self._worker.steps.start(started)
        return started

    def lose(self) -> bool:
        """Know that another session holds the run, whatever we hear of our last commit.

        Tell whether this one is at rest; else it is let go of when its task comes round to it.
        """
        self.state = "lost"
        return not self._is_driven

    def let_go(self) -> None:
        """Hold the run no more: stop its steps, and close its machine unless it is parked."""
        self._stop_alarm()
        self._flight = None
        if self._visitors is not None:
            self._receive_visitors(self._visitors)
        self._stop_steps()
        self._worker.health.forget(self.run.id)
        if self.state != "parked":
            self.machine.close()


async def _raise(error: Exception) -> None:
    raise error
