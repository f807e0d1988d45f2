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
from functools import partial

from holdfast.errors import HistoryTooLong, HoldfastError, StoreError
from holdfast.hosts.worker import attempts, continuing, family, length, overdue, replay, telling
from holdfast.hosts.worker.feeding import Feeding
from holdfast.hosts.worker.held import NO_RESULTS, NO_RETRIES, NOTHING_DEFERRED, State
from holdfast.hosts.worker.notebook import Notebook
from holdfast.hosts.worker.steps import Limit, Result, StepRun
from holdfast.hosts.worker.turn import Draft
from holdfast.hosts.worker.waiting import FEW_OF, has_answers
from holdfast.kernel import dispatch
from holdfast.machine import Machine
from holdfast.machine.afterwards import call_afterwards
from holdfast.machine.ending import unless_owed
from holdfast.machine.lines import take_lines
from holdfast.model.asks import Ended, StepAsk, Turn
from holdfast.model.commands import CommitTurn
from holdfast.model.events import PROGRESS, Event, since_start
from holdfast.model.run import SINCE_START, Loaded, Message
from holdfast.model.writes import Outcome
from holdfast.ports.reply import Answered, tell

log = logging.getLogger("holdfast.worker")


class Session(Feeding):
    """One held run. Make it with `Worker`; `drive` returns when the run is out of its hands."""

    __slots__ = ()

    # --- the loop

    async def drive(self) -> None:
        """Hold the run until it closes, parks or is lost."""
        try:
            while self.state == "held":
                if self._errand is None and (self._flight or not self._look):
                    await self._sleep()
                    self._wake_up()
                elif self._errand is not None:
                    errand, self._errand = self._errand, None
                    await errand()
                else:
                    self._look = False
                    await self._look_around()
        finally:
            self._let_go()

    async def _look_around(self) -> None:
        """Read what has to be read, and make a turn of all that has come."""
        if self._must_read and not await self._reread():
            return
        if self._mail_came and not await self._read_mail():
            return
        self._turn()

    def settle(self, result: Result) -> None:
        """Take the result of an attempt into the next turn.

        If it is all there is to do, that turn is made here and now: it need not be waited for.
        """
        self.running.pop(result.ask.key, None)
        self._results = self._results or []
        self._results.append(result)
        if self.running or self._look or self._flight or self._wake is None:
            self.poke()
        else:
            try:
                self._turn()
            except Exception as error:
                self._break(error)

    def _turn(self) -> None:
        """Feed what is ready, commit it, and start what the body asks for now."""
        draft = Draft(self.run, self.seq, self._stamp(), self.family, self.ticketed)
        draft.supersedes, draft.superseded_by = self._superseded
        results, self._results = self._results, NO_RESULTS
        mail, self._mail = self._mail, ()
        if self.machine.notes:
            self._note(draft)
        try:
            turn = self._feed(draft, results, mail)
        except HoldfastError as error:
            self._block(draft, error, mail)
            turn = Turn()
        self._conclude(draft, turn)
        if self.waits is not None or self.machine.outside is not None:
            self._settle_waits(draft)
        if draft.events or draft.has_changes:
            self._commit(draft, turn, results)
        else:
            self._drop(turn.dropped)
            self._start(turn.asks)

    def _break(self, error: Exception) -> None:
        """Have `drive` fail with what failed in the hands of somebody who has no part in it."""
        self._send(partial(_raise, error))

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
        elif (forced_at := self._forced_at()) is not None and draft.at >= forced_at:
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
            tell(self._worker.store.write([dispatch.decide(command)]), self._land)
        else:
            self._send(partial(self._commit_with, self.notebook, *self._flight))

    async def _commit_with(
        self, notebook: Notebook, draft: Draft, turn: Turn, results: list[Result], bare: CommitTurn
    ) -> None:
        command = await notebook.onto(bare, turn.dropped)
        self._flight = (draft, turn, results, command)
        tell(self._worker.store.write([dispatch.decide(command)]), self._land)

    def _land(self, answer: Answered[list[Outcome]]) -> None:
        """Go on after a commit, whatever came of it."""
        flight, self._flight = self._flight, None
        if flight is None:
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
        if self._look:
            self.poke()
        elif self._wake is not None and self._flight is None:
            self._set_alarm()

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
        answer = "applied" if outcome.applied else dispatch.read(command, outcome)
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
        elif answer != "applied":
            self._refused(answer, results)
        else:
            self.seq += len(draft.events)
            if self._worker.settings.paranoid and draft.status != "blocked":
                self._flight = (draft, turn, results, command)
                self._send(partial(self._check, outcome, draft, turn))
            else:
                self._go_on(draft, turn, outcome)

    async def _check(self, outcome: Outcome, draft: Draft, turn: Turn) -> None:
        await self._worker.check_replay(self.run, self.seq, self.machine)
        self._flight = None
        self._go_on(draft, turn, outcome)
        if self._visitors is not None:
            self._receive_visitors(self._visitors)

    def _go_on(self, draft: Draft, turn: Turn, outcome: Outcome) -> None:
        """Do what had to wait for the commit."""
        if self._worker.observing is not None:
            self._worker.observing.committed(self.run, draft.events, draft.at)
        if self.machine.afterwards is not None:
            call_afterwards(self.machine)
        self._superseded = ((), 0)
        if self.notebook is not None or draft.waits is not None:
            self._kept(draft)
        is_progress = self.run.strikes > 0 and any(e.kind in PROGRESS for e in draft.events)
        self._passed(draft.at, outcome, is_progress=is_progress)
        if turn.dropped:
            self._drop(turn.dropped)
        if draft.continues:
            self._begin_generation(self.run.generation + 1)
            self._is_new = True
            self.must_reread()
        elif draft.status == "running":
            self._start(turn.asks, draft.intends)
        else:
            self._end_as("parked" if draft.status == "waiting" else "closed")

    def _kept(self, draft: Draft) -> None:
        """Note that what was written beside the history is stored."""
        if self.notebook is not None:
            self.notebook.kept()
        if draft.waits is not None:
            self.outside().kept(draft.waits)

    def _begin_generation(self, generation: int) -> None:
        """Forget what the former body asked for: its keys mean something else from now on."""
        self.run = self.run._replace(generation=generation)
        self._stop_steps()
        self._results, self._retries, self._shown = NO_RESULTS, NO_RETRIES, ()
        self._intents = ()

    def _end_as(self, state: State) -> None:
        self.state = state
        self.poke()

    def _refused(self, answer: str, results: list[Result]) -> None:
        if answer == "lost":
            log.info("run %s was taken by another worker", self.run.id)
            self._worker.refusals += 1
            self._end_as("lost")
        else:
            self._throw_away(results)

    def _throw_away(self, results: list[Result]) -> None:
        """Forget the turn: the machine has seen what was not stored."""
        self._results = results + self._results
        if self.notebook is not None:
            self.notebook.forget_turn()
        self.must_reread()

    # --- reading

    async def _reread(self) -> bool:
        """Build the machine from the stored history. Return whether the run is still ours."""
        born, self._born = self._born, None
        begins = 0 if self.run.generation == 1 else SINCE_START
        loaded = Loaded(self.run, (born,), ()) if born else await self._load(after=begins)
        if loaded is None:
            return False
        self._must_read = False
        if self.machine.seq:  # it has seen what may not be stored
            self._begin_again()
        if loaded.run.generation != self.run.generation:
            self._begin_generation(loaded.run.generation)
        self.run, self.seq = loaded.run, loaded.run.seq
        self.inbox_seq = loaded.run.inbox_seq
        if loaded.progress or self.notebook is not None:
            self.notes().know(loaded.progress)
        if born is None:
            self._mail, self._mail_came, self._waiting = loaded.mail, False, ()
        try:
            is_first = loaded.run.generation == 1
            self._replay(loaded.events if is_first else tuple(since_start(loaded.events)))
        except HoldfastError as error:
            await self._set_aside(error)
            return False
        for key in [key for key in self.running if self.machine.asks.get(key) is None]:
            self.running.pop(key).stop()
        self._resumes = True
        return await self._recall_waits(is_new=born is not None)

    def _begin_again(self) -> Machine:
        self.machine.close()
        self.machine = self._worker.new_machine(self.run)
        return self.machine

    async def _read_mail(self) -> bool:
        loaded = await self._load(after=self.seq)
        if loaded is None:
            return False
        self._mail_came = False
        self._mail = loaded.mail
        self.inbox_seq = loaded.run.inbox_seq
        return not has_answers(loaded.mail) or await self._learn_answers()

    async def _learn_answers(self) -> bool:
        """Read what was settled, after the mail that tells of it. Is the run still ours?"""
        waiting, keys = self.waits, {each.name for each in self._mail if each.kind == "answer"}
        if waiting is None or len(keys) * FEW_OF > len(waiting.rows):
            return await self._learn_waits()
        # All others stay as we know them: whoever settles one leaves a message.
        for key in keys:
            waiting.relearn(key, await self._worker.waits_of(self.run, key))
        return True

    async def _recall_waits(self, *, is_new: bool) -> bool:
        """After a replay, know again what is waited for from outside. Is it still ours?"""
        is_any = self.machine.outside is not None or self.waits is not None
        if not is_any and not has_answers(self._mail):
            return True
        if not is_new and not await self._learn_waits():
            return False
        self.outside().recall(self._deferred)
        return True

    async def _learn_waits(self) -> bool:
        """Read what the run waits for from outside, after its mail. Is it still ours?"""
        waiting = self.outside()
        await self._worker.jobs.teach(waiting, self.run)
        while unheard := waiting.unheard(self._mail):
            # Its message was read before, or has come since we looked.
            loaded = await self._load(after=self.seq)
            if loaded is None:
                return False
            if loaded.mail == self._mail:
                self._mail = (*unheard, *self._mail)
                return True
            self._mail, self.inbox_seq = loaded.mail, loaded.run.inbox_seq
            await self._worker.jobs.teach(waiting, self.run)
        return True

    async def _load(self, *, after: int) -> Loaded | None:
        """Read the run, however long the store is away. None: it is no longer ours."""
        loaded = await self._worker.patiently(self.run, after)
        if loaded is None or not loaded.run.is_held_as(self.run):
            self.state = "lost"
            return None
        return loaded

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

    def _replay(self, events: tuple[Event, ...]) -> None:
        if self._worker.observing is not None:
            self._worker.observing.read(self.run, events)
        # Under the first epoch nobody held the run before: its start is seen for the first time.
        is_new, self._is_new = self._is_new or self.run.seq == self.run.epoch == 1, False
        generation, again = self.run.generation, self._begin_again
        left_out = replay.feed(self.machine, events, generation, is_new=is_new, again=again)
        machine = self.machine
        if machine.lines:
            self.notes().begin(take_lines(machine), events[0].at)
        folded = replay.fold(events, self.run.generation)
        self.family = family.family_of(events, self.run, machine, self.family, left_out)
        self._superseded = (left_out, folded.reopened_seq)
        self._deferred = folded.deferred or NOTHING_DEFERRED
        self.last_at = folded.last_at
        if machine.base > 1:
            noticed_at = length.noticed_at(self._worker.settings.history)
            self._long_at = max(self._long_at, machine.base - 1 + noticed_at)
        self.cancelled_at, self.paused = folded.cancelled_at, folded.paused
        self._overdue = folded.overdue
        self._deadline = self.run.deadline if folded.cancelled_at is None else None
        self._reopened_at, self.keyed_as = folded.reopened_at, folded.keyed_as
        self.anew = folded.anew
        kept = {k: r for k, r in folded.retries.items() if machine.asks.get(k) is not None}
        self._retries = kept or NO_RETRIES
        # An attempt whose commit was in doubt may be recorded after all: not a second time.
        self._results = [
            result
            for result in self._results
            if (known := self._retries.get(result.ask.key)) is None
            or result.number > known.attempts
        ] or NO_RESULTS
        self._intents = ()
        if folded.begun:
            self._miss_outcomes(folded.begun)

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

    def _let_go(self) -> None:
        self._wake_up()
        self._flight = None
        if self._visitors is not None:
            self._receive_visitors(self._visitors)
        self._stop_steps()
        self._worker.health.forget(self.run.id)
        if self.state != "parked":
            self.machine.close()


async def _raise(error: Exception) -> None:
    raise error
