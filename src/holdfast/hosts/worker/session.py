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
from typing import TYPE_CHECKING, Literal

from holdfast.errors import BodyStuck, HistoryTooLong, HoldfastError, StoreError
from holdfast.hosts.worker import attempts, length, replay
from holdfast.hosts.worker.attempts import Retrying
from holdfast.hosts.worker.notebook import Notebook
from holdfast.hosts.worker.steps import Result, StepRun
from holdfast.hosts.worker.turn import Draft
from holdfast.kernel import dispatch
from holdfast.model.asks import Ended, StepAsk, Turn
from holdfast.model.events import Event
from holdfast.model.run import Loaded, Message, Run
from holdfast.model.writes import Outcome

if TYPE_CHECKING:
    from holdfast.hosts.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

State = Literal["held", "parked", "closed", "lost"]


class Session:
    """One held run. Make it with `Worker`; `drive` returns when the run is out of its hands."""

    __slots__ = (
        "_born", "_call", "_failures", "_long_at", "_look", "_mail", "_mail_came", "_must_read",
        "_reopened_at", "_results", "_resumes", "_retries", "_shown", "_superseded", "_wake",
        "_worker", "cancelled_at", "draining", "inbox_seq", "last_at", "machine", "notebook",
        "paused", "run", "running", "seq", "state",
    )  # fmt: skip

    def __init__(self, worker: Worker, run: Run) -> None:
        self._worker = worker
        self.run = run
        self.seq = run.seq
        self.machine = worker.new_machine(run)
        self.state: State = "held"
        self.running: dict[str, StepRun] = {}
        self.last_at = run.created_at
        self.inbox_seq = run.inbox_seq
        self.cancelled_at: int | None = None
        self.paused = False
        self.draining = False
        self._retries: dict[str, Retrying] = {}
        self._results: list[Result] = []
        self._mail: tuple[Message, ...] = ()
        self._mail_came = False
        self._must_read = True
        self._resumes = True
        self._reopened_at = self._failures = 0
        self._long_at = length.noticed_at(worker.settings.history)
        self._look = True
        self._wake: asyncio.Future[None] | None = None
        self._call: asyncio.TimerHandle | None = None
        self._born: Event | None = None
        self._shown: tuple[StepRun, ...] = ()
        self._superseded: tuple[tuple[int, ...], int] = ((), 0)
        self.notebook: Notebook | None = None

    # --- what others tell it

    def take_over(self, run: Run) -> None:
        """Go on with a run that was parked here, under its new epoch."""
        # Another holder in between may have left heartbeats, even if it left no event.
        self.must_reread(run.seq != self.seq or run.epoch != self.run.epoch + 1)
        self._resumes = True
        self.run, self.state, self.inbox_seq = run, "held", run.inbox_seq
        self._mail_came = run.has_mail
        self.draining = False

    def adopt(self, event: Event) -> None:
        """Begin with a run that was born in this process: its history is this one event."""
        self._born = event
        self._mail_came = self.run.has_mail

    def mail_came(self) -> None:
        """Look into the inbox before the next commit."""
        self._mail_came = True
        self.poke()

    def must_reread(self, needed: bool = True) -> None:
        """Compare with the store before anything else: the run may have been taken away."""
        self._must_read = self._must_read or needed
        self.poke()

    def settle(self, result: Result) -> None:
        """Take the result of an attempt into the next turn."""
        self.running.pop(result.ask.key, None)
        self._results.append(result)
        self.poke()

    def show(self, step: StepRun) -> None:
        """Record in the next turn that this attempt has been running for a while."""
        self._shown = (*self._shown, step)
        self.poke()

    def notes(self) -> Notebook:
        """Return where things that are said go; most runs say nothing and have none."""
        self.notebook = self.notebook or Notebook(self, self._worker.scribe)
        return self.notebook

    def poke(self) -> None:
        """Have `drive` look again."""
        self._look = True
        wake = self._wake
        if wake is not None and not wake.done():
            wake.set_result(None)

    def drain(self) -> None:
        """Start nothing more; give the run back when its running steps have ended."""
        self.draining = True
        self.poke()

    def give_up_steps(self) -> None:
        """Stop waiting for running steps; they count as not attempted."""
        for step in self.running.values():
            step.stop()
        self.running.clear()
        self.poke()

    # --- the loop

    async def drive(self) -> None:
        """Hold the run until it closes, parks or is lost."""
        try:
            while self.state == "held":
                if not self._look:
                    await self._sleep()
                    self._wake_up()
                self._look = False
                if self._must_read and not await self._reread():
                    continue
                if self._mail_came and not await self._read_mail():
                    continue
                await self._turn()
        finally:
            self._let_go()

    async def _turn(self) -> None:
        """Feed what is ready, commit it, and start what the body asks for now."""
        draft = Draft(self.run, self.seq, self._stamp())
        draft.supersedes, draft.superseded_by = self._superseded
        results, self._results = self._results, []
        mail, self._mail = self._mail, ()
        try:
            turn = self._feed(draft, results, mail)
        except HoldfastError as error:
            draft.block(error, mail)
            turn = Turn()
        self._conclude(draft, turn)
        if draft.has_changes:
            await self._commit(draft, turn, results)
        else:
            self._start(turn.asks)

    def _feed(self, draft: Draft, results: list[Result], mail: tuple[Message, ...]) -> Turn:
        """Feed one thing at a time: messages first, a cancel before all, then answers."""
        machine = self.machine
        if mail:
            for message in sorted(mail, key=lambda m: (m.kind != "cancel", m.n)):
                self._feed_message(draft, message)
        if len(results) == 1:
            self._feed_result(draft, results[0])
        elif results:
            with machine.entered():
                for result in results:
                    self._feed_result(draft, result)
        if not self.paused:
            self._fire_timers(draft)
        if self._shown:
            self._record_shown(draft)
        return self._take_turn()

    def _record_shown(self, draft: Draft) -> None:
        shown, self._shown = self._shown, ()
        for step in shown:
            if self.running.get(step.key) is step:
                self.machine.feed(draft.add_started(step.ask, step.number))

    def _take_turn(self) -> Turn:
        machine = self.machine
        if machine.warnings:
            self._log_warnings()
        if machine.lines:
            self.notes().hear(machine.lines.take())
        if machine.is_stuck():
            raise BodyStuck(source=machine.source())
        turn = machine.take_turn()
        if self._resumes:
            self._resumes, turn.asks = False, self._unbegun()
        return turn

    def _log_warnings(self) -> None:
        for warning in self.machine.warnings:
            log.warning("run %s: %s", self.run.id, warning)
        self.machine.warnings.clear()

    def _feed_message(self, draft: Draft, message: Message) -> None:
        event = draft.add_message(message)
        if message.kind == "pause":
            self.paused = True
        elif message.kind == "cancel":
            self.cancelled_at = self.cancelled_at or event.at
        self.machine.feed(event)

    def _feed_result(self, draft: Draft, result: Result) -> None:
        key = result.ask.key
        if key not in self.machine.asks or self.machine.ended is not None:
            return
        if result.error is None:
            self._retries.pop(key, None)
            self.machine.feed(
                draft.add_answer(result.ask, result.payload, result.took), result.value
            )
            return
        decided = attempts.decide(result, result.error, self._worker.chance(), draft.at)
        if decided.retrying is None:
            self._retries.pop(key, None)
        else:
            self._retries[key] = decided.retrying
        self.machine.feed(draft.add(decided.event))

    def _fire_timers(self, draft: Draft) -> None:
        machine = self.machine
        while (timer := machine.next_timer()) is not None and timer[0] <= draft.at:
            machine.feed(draft.add_timer(*timer, machine.loop.timers.asked_seq(timer[1])))

    def _conclude(self, draft: Draft, turn: Turn) -> None:
        """Decide what the run does next: close, stop for a pause, park, or stay."""
        if turn.ended is not None:
            draft.close(turn.ended)
            for name in turn.ended.leftovers:
                log.warning("run %s ended while task %s was unfinished", self.run.id, name)
            for key in self.machine.unawaited:
                log.warning("run %s called %s and never awaited it", self.run.id, key)
        elif draft.status != "running":
            return
        elif self.seq >= self._long_at and self._is_too_long():
            draft.block(HistoryTooLong(events=self.seq, limit=self._long_at), ())
        elif self._is_out_of_grace(draft.at):
            draft.close(Ended("cancelled"))
        elif not self._is_busy(turn):
            self._settle_down(draft)

    def _is_too_long(self) -> bool:
        self._long_at = length.notice(self.run.id, self.seq, self._worker.settings.history)
        return self.seq >= self._long_at

    def _is_out_of_grace(self, at: int) -> bool:
        if self.cancelled_at is None:
            return False
        return at >= self.cancelled_at + round(self._worker.settings.cancel_grace * 1e6)

    def _is_busy(self, turn: Turn) -> bool:
        """Tell whether steps run, or are about to."""
        if turn.asks and not (self.paused or self.draining):
            return True
        return bool(self.running and self.running.keys() - turn.dropped)

    def _settle_down(self, draft: Draft) -> None:
        if self.paused:
            draft.pause(self.inbox_seq)
        elif self.draining:
            draft.release(self.inbox_seq)
        elif not self._wakes_soon(draft.at):
            draft.park(self._wake_at(), self._reason(), self.inbox_seq)

    async def _commit(self, draft: Draft, turn: Turn, results: list[Result]) -> None:
        command = draft.command(self._worker.id, self.inbox_seq)
        if self.notebook is not None:
            command = await self.notebook.onto(command, turn.dropped)
        try:
            (outcome,) = await self._worker.store.write([dispatch.decide(command)])
        except StoreError as error:
            log.warning("run %s: a commit failed: %s", self.run.id, error)
            self._throw_away(results)
            await self._worker.be_patient(self._failures)
            self._failures += 1
            return
        self._failures = 0
        answer = dispatch.read(command, outcome)
        if answer == "mail":
            draft.stay()
            self.mail_came()
            await self._commit(draft, turn, results)
        elif answer != "applied":
            self._refused(answer, results)
        else:
            self.seq += len(draft.events)
            if self._worker.settings.paranoid and draft.status != "blocked":
                await self._worker.check_replay(self.run, self.seq, self.machine)
            self._go_on(draft, turn, outcome)

    def _go_on(self, draft: Draft, turn: Turn, outcome: Outcome) -> None:
        """Do what had to wait for the commit."""
        self.last_at = draft.at
        self._superseded = ((), 0)
        if self.notebook is not None:
            self.notebook.kept()
        if outcome.inbox_seq != self.inbox_seq:
            self.inbox_seq = outcome.inbox_seq
            self.mail_came()
        for key in turn.dropped:
            self._retries.pop(key, None)
            if (dropped := self.running.pop(key, None)) is not None:
                dropped.stop()
        if draft.status == "running":
            self._start(turn.asks)
        else:
            self.state = "parked" if draft.status == "waiting" else "closed"

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

    # --- reading

    async def _reread(self) -> bool:
        """Build the machine from the stored history. Return whether the run is still ours."""
        born, self._born = self._born, None
        loaded = Loaded(self.run, (born,), ()) if born else await self._load(after=0)
        if loaded is None:
            return False
        self._must_read = False
        self._new_machine()
        self.run, self.seq = loaded.run, loaded.run.seq
        self.inbox_seq = loaded.run.inbox_seq
        if loaded.progress or self.notebook is not None:
            self.notes().know(loaded.progress)
        if born is None:
            self._mail, self._mail_came = loaded.mail, False
        try:
            self._replay(loaded.events)
        except HoldfastError as error:
            await self.block(error)
            return False
        for key in [key for key in self.running if self.machine.asks.get(key) is None]:
            self.running.pop(key).stop()
        self._resumes = True
        return True

    async def _read_mail(self) -> bool:
        loaded = await self._load(after=self.seq)
        if loaded is None:
            return False
        self._mail_came = False
        self._mail = loaded.mail
        self.inbox_seq = loaded.run.inbox_seq
        return True

    async def _load(self, *, after: int) -> Loaded | None:
        """Read the run, however long the store is away. None: it is no longer ours."""
        loaded = await self._worker.patiently(self.run, after)
        if loaded is None or not _is_ours(loaded.run, self.run):
            self.state = "lost"
            return None
        return loaded

    async def block(self, error: HoldfastError) -> None:
        """Set the run aside with the reason."""
        mail, self._mail = self._mail, ()
        draft = Draft(self.run, self.seq, self._stamp())
        draft.block(error, mail)
        await self._commit(draft, Turn(), [])

    def _replay(self, events: tuple[Event, ...]) -> None:
        machine = self.machine
        left_out = machine.feed_all(events, self.run.generation)
        if machine.lines:
            self.notes().begin(machine.lines.take(), events[0].at)
        folded = replay.fold(events, self.run.generation)
        self._superseded = (left_out, folded.reopened_seq)
        self.last_at = folded.last_at
        self.cancelled_at, self.paused = folded.cancelled_at, folded.paused
        self._reopened_at = folded.reopened_at
        self._retries = {k: r for k, r in folded.retries.items() if machine.asks.get(k) is not None}
        # An attempt whose commit was in doubt may be recorded after all: not a second time.
        self._results = [
            result
            for result in self._results
            if (known := self._retries.get(result.ask.key)) is None
            or result.number > known.attempts
        ]

    def _new_machine(self) -> None:
        self.machine.close()
        self.machine = self._worker.new_machine(self.run)

    # --- steps

    def _unbegun(self) -> list[StepAsk]:
        """Return what the body asks for and nobody has begun."""
        begun = self._begun() | self._retries.keys()
        return [ask for key, ask in self.machine.asks.items() if key not in begun]

    def _start(self, asks: list[StepAsk]) -> None:
        if self.draining or self.paused:
            return
        for ask in asks:
            self._start_one(ask, 1)
        if self._retries:
            now, begun = self._stamp(), self._begun()
            for key, retrying in tuple(self._retries.items()):
                again = self.machine.asks.get(key)
                if again is not None and retrying.at <= now and key not in begun:
                    self._start_one(again, retrying.attempts + 1)

    def _begun(self) -> set[str]:
        """Return the keys of steps that run, or whose result waits for the next turn."""
        return {*self.running, *(result.ask.key for result in self._results)}

    def _start_one(self, ask: StepAsk, number: int) -> None:
        run = self.run
        if ask.asked_at < self._reopened_at:
            # Time for the attempts of a reopened run counts from there.
            ask = ask._replace(asked_at=self._reopened_at)
        limit = attempts.limit_of(ask, self._stamp)
        started = StepRun(run, ask, number, limit, self.settle, self.show)
        started.session = self
        self.running[ask.key] = started
        self._worker.steps.start(started)

    # --- waiting

    def _stamp(self) -> int:
        return max(self.last_at, self._worker.store.now())

    def _wake_at(self) -> int | None:
        """Return when the run must go on by itself: a timer, a retry, the end of a grace."""
        times: list[int] = []
        if self._retries:
            running = self.running
            times = [again.at for key, again in self._retries.items() if key not in running]
        timer = self.machine.next_timer()
        if timer is not None:
            times.append(timer[0])
        if self.cancelled_at is not None:
            times.append(self.cancelled_at + round(self._worker.settings.cancel_grace * 1e6))
        return min(times, default=None)

    def _wakes_soon(self, now: int) -> bool:
        wake_at = self._wake_at()
        return wake_at is not None and wake_at - now <= self._worker.settings.keep * 1e6

    def _reason(self) -> str:
        return replay.reason(self.machine.awaited_signals(), self._retries)

    def _sleep(self) -> asyncio.Future[None]:
        """Return what is done when poked, or when the next timer or retry is due."""
        loop = asyncio.get_running_loop()
        wake = self._wake = loop.create_future()
        wake_at = self._wake_at()
        if wake_at is not None and not (self.paused or self.draining):
            delay = max(wake_at - self._worker.store.now(), 0) / 1e6
            self._call = loop.call_later(min(delay, 3_600), self.poke)
        return wake

    def _wake_up(self) -> None:
        self._wake = None
        if self._call is not None:
            self._call.cancel()
            self._call = None

    def _let_go(self) -> None:
        self._wake_up()
        for step in self.running.values():
            step.stop()
        self.running.clear()
        if self.state != "parked":
            self.machine.close()


def _is_ours(stored: Run, held: Run) -> bool:
    return stored.status == "running" and stored.epoch == held.epoch and stored.owner == held.owner
