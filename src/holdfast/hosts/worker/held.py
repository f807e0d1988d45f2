"""A run in the hands of a worker: what is known of it, who may tell it what, when it must wake.

`Session` acts on this; others only call the methods under "what others tell it".
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import TYPE_CHECKING, Literal, cast

from holdfast.hosts.worker import length, queued, replay, updates
from holdfast.hosts.worker.attempts import Retrying
from holdfast.hosts.worker.family import Family
from holdfast.hosts.worker.notebook import Notebook
from holdfast.hosts.worker.steps import Result, StepRun
from holdfast.hosts.worker.turn import Draft
from holdfast.hosts.worker.updates import Visitor
from holdfast.model.asks import StepAsk, Turn
from holdfast.model.commands import CommitTurn
from holdfast.model.events import Event
from holdfast.model.run import Message, Run
from holdfast.model.secrets import Secret
from holdfast.model.writes import Outcome

if TYPE_CHECKING:
    from holdfast.hosts.worker.needing import Needing
    from holdfast.hosts.worker.recalling import Recalling
    from holdfast.hosts.worker.session import Session
    from holdfast.hosts.worker.waiting import Deferred, Waiting
    from holdfast.hosts.worker.worker import Worker

NOTHING_DEFERRED: Mapping[str, Deferred] = {}

State = Literal["held", "parked", "closed", "lost"]

Flight = tuple[Draft, Turn, list[Result], CommitTurn]
"""A commit on its way: what it makes last, and the results to feed again if it does not."""

NO_RETRIES: dict[str, Retrying] = {}
NO_RESULTS: list[Result] = []
"""Shared by all who have none, because most runs wait; never changed."""


class Held:
    """A run in hand: its machine, its steps, its place in the history, and what was heard of it."""

    __slots__ = (
        "_alarm", "_born", "_deadline", "_deferred", "_errand", "_failures", "_flight", "_intents",
        "_is_bare", "_is_driven", "_is_new", "_long_at", "_look", "_mail", "_mail_came",
        "_must_read", "_overdue", "_reopened_at", "_results", "_resumes", "_retries", "_shown",
        "_superseded", "_visitors", "_waiting", "_worker", "anew", "cancelled_at", "draining",
        "family", "inbox_seq", "keyed_as", "last_at", "machine", "needs", "notebook", "paused",
        "recalls", "run", "running", "seq", "state", "ticketed", "waits",
    )  # fmt: skip

    def __init__(self, worker: Worker, run: Run) -> None:
        self._worker = worker
        self.run = run
        self.seq: int = run.seq
        self.machine = worker.new_machine(run)
        self.state: State = "held"
        self.running: dict[str, StepRun] = {}
        self.last_at = run.created_at
        self.inbox_seq = run.inbox_seq
        self.keyed_as = run.generation
        self.cancelled_at: int | None = None
        self.paused = self.draining = self.ticketed = self.anew = False
        self._deadline = run.deadline
        self._overdue: str | None = None
        self._retries = NO_RETRIES
        self._results = NO_RESULTS
        self._mail: tuple[Message, ...] = ()
        self._mail_came = False
        self._waiting: tuple[Message, ...] = ()
        self._visitors: list[Visitor] | None = None
        self._must_read = True
        self._is_new = False
        self._resumes = True
        self._reopened_at = 0
        self._failures: int = 0
        self._long_at = length.noticed_at(worker.settings.history)
        self._look = True
        self._flight: Flight | None = None
        self._errand: Callable[[], Awaitable[None]] | None = None
        self._is_driven = self._is_bare = False
        self._alarm: asyncio.TimerHandle | None = None
        self._born: Event | None = None
        self._shown: tuple[StepRun, ...] = ()
        self._intents: tuple[StepAsk, ...] = ()
        self._superseded: tuple[tuple[int, ...], int] | None = None
        self.notebook: Notebook | None = None
        self.family: Family | None = None
        self.waits: Waiting | None = None
        self.needs: Needing | None = None
        self.recalls: Recalling | None = None
        self._deferred: Mapping[str, Deferred] = NOTHING_DEFERRED

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

    def show(self, step: StepRun) -> None:
        """Record in the next turn that this attempt has been running for a while."""
        self._shown = (*self._shown, step)
        self.poke()

    def notes(self) -> Notebook:
        """Return where things that are said go; most runs say nothing and have none."""
        if self.notebook is None:
            self.notebook, self._is_bare = Notebook(self, self._worker.scribe), False
        return self.notebook

    @property
    def callbacks(self) -> str:
        """The address at which outcomes of steps are taken; empty if there is none."""
        return self._worker.settings.callbacks

    def retrying(self, key: str) -> Retrying | None:
        """Return how often the step was attempted, if it is not its first time."""
        return self._retries.get(key)

    def poke(self) -> None:
        """Have the run looked at again, once no commit is on its way."""
        self._look = True
        if self._flight is None:
            self._call_driver()

    def go_on(self) -> None:
        """Begin what could not begin while the store took no writes."""
        self._resumes = True
        self.poke()

    def drain(self) -> None:
        """Start nothing more; give the run back when its running steps have ended."""
        self.draining = True
        self.poke()

    def give_up_steps(self) -> None:
        """Stop waiting for running steps; they count as not attempted."""
        self._stop_steps()
        self.poke()

    def _forget_attempts(self, key: str) -> None:
        if self.needs is not None:
            self.needs.forget(key)
        if self.recalls is not None:
            self.recalls.forget(key)
        if self._retries:
            gone, observing = self._retries.pop(key, None), self._worker.observing
            if gone is not None and observing is not None:
                observing.retried(self.run, key, gone.attempts + 1)

    def _recovered(self) -> None:
        """Note that the store takes writes again."""
        self._failures = 0
        self._worker.health.works(self.run.id)

    def _clear_strikes(self) -> None:
        """Suspect the run no longer, as the store does: another one may be held beside it."""
        self.run = self.run._replace(strikes=0)
        self._worker.look_for_more()

    def _passed(self, at: int, outcome: Outcome) -> None:
        """Note what follows from a commit that applied, whatever it held."""
        self.last_at = at
        if outcome.inbox_seq != self.inbox_seq:
            self.inbox_seq = outcome.inbox_seq
            self.mail_came()

    def _timed(self, ask: StepAsk) -> StepAsk:
        """Have the time for attempts count from where the run went on again, if it did."""
        return ask._replace(asked_at=max(ask.asked_at, self._reopened_at))

    def _drop(self, keys: list[str]) -> None:
        """Stop what the body no longer asks for."""
        for key in keys:
            self._forget_attempts(key)
            if (dropped := self.running.pop(key, None)) is not None:
                dropped.stop()

    def _stop_steps(self) -> None:
        for step in self.running.values():
            step.stop()
        self.running.clear()
        if self.needs is not None:
            self.needs.stop()
        if self.recalls is not None:
            self.recalls.stop()

    async def fetch(self, names: tuple[str, ...]) -> Mapping[str, Secret]:
        """Return the secrets of these names, as this run gets them. Raises `Lacking`."""
        return await self._worker.vault.fetch(self.run.id, names)

    @property
    def reopened_at(self) -> int:
        """When the run was last reopened or resumed, or 0."""
        return self._reopened_at

    def clock(self) -> int:
        """Return the time of a turn that is made now."""
        return self._stamp()

    # --- waiting

    def _stamp(self) -> int:
        now, last = self._worker.store.now(), self.last_at
        return now if now > last else last

    def _wake_at(self) -> int | None:
        """Return when the run must go on by itself: a timer, a retry, its deadline."""
        if not self._has_times():
            return None
        timer, waiting = self.machine.next_timer(), self.waits
        times: list[int] = []
        if self._retries:
            begun = self._in_hand()
            times = [again.at for key, again in self._retries.items() if key not in begun]
        if timer is not None:
            times.append(timer[0])
        if waiting is not None:
            times += waiting.next_due()
        if self.needs is not None:
            times += self.needs.next_due()
        if self._deadline is not None:
            times.append(self._deadline)
        if (forced_at := self._forced_at()) is not None:
            times.append(forced_at)
        return min(times, default=None)

    def _has_times(self) -> bool:
        """Tell whether there is anything at all for which it may have to go on by itself."""
        if self._deadline is not None or self.cancelled_at is not None or self._retries:
            return True
        is_free = self.waits is None and self.needs is None
        return not is_free or bool(self.machine.loop.timers.open)

    def _in_hand(self) -> Collection[str]:
        """Return the keys of steps that begin at no time of their own."""
        if self.waits is None and self.needs is None:
            return self.running
        elsewhere = () if self.waits is None else self.waits.elsewhere()
        pending = () if self.needs is None else self.needs.pending
        return {*self.running, *elsewhere, *pending}

    def _forced_at(self) -> int | None:
        """Return when a cancelled body is ended whatever it does; never while a saga undoes."""
        if self.cancelled_at is None:
            return None
        since, sagas = max(self.cancelled_at, self._reopened_at), self.machine.sagas
        if sagas is not None:
            if sagas.undoing:
                return None
            since = max(since, sagas.undone_at)
        return since + round(self._worker.settings.cancel_grace * 1e6)

    def _is_forced(self, now: int) -> bool:
        """Tell whether a cancelled body has had its time."""
        forced_at = self._forced_at()
        return forced_at is not None and now >= forced_at

    def _wakes_soon(self, now: int) -> bool:
        wake_at = self._wake_at()
        return wake_at is not None and wake_at - now <= self._worker.settings.keep * 1e6

    def _reason(self) -> str:
        machine, waits, retries = self.machine, self.waits, self._retries
        others = [f"child {id}" for id in machine.awaited_children()]
        others += [f"an answer to {key}" for key in machine.awaited_answers()]
        if waits is not None:
            others += [f"somebody to complete {key}" for key in waits.deferred]
            others += queued.told(machine, waits.deferred)
            if retries:
                gone = waits.elsewhere()
                retries = {key: each for key, each in retries.items() if key not in gone}
        if self.needs is not None and self.needs.lacking:
            others += self.needs.reasons()
            lacking = self.needs.lacking
            retries = {key: each for key, each in retries.items() if key not in lacking}
        told = replay.reason(machine.awaited_signals(), retries, others)
        if machine.handlers is None and not self._waiting:
            return told
        return updates.reason(told, machine.awaited_updates(), self._waiting)

    def _wait(self) -> None:
        """Be ready for what comes next: a timer, a message, or only results, as in most runs."""
        self._is_bare = not (
            self.paused or self.draining or self._mail or self._mail_came or self._must_read
            or self._superseded or self._waiting or self._retries or self._shown or self._intents
            or self._resumes
        ) and not (
            self.cancelled_at or self._deadline or self.notebook or self.waits or self.needs
            or self.recalls
        )  # fmt: skip
        self._set_alarm()

    def _set_alarm(self) -> None:
        """Have the run looked at when its next timer, retry or deadline is due."""
        if self._alarm is None and not self._has_times():
            return
        self._stop_alarm()
        wake_at = self._deadline if self.paused or self.draining else self._wake_at()
        if wake_at is not None and not self._is_held_back:
            delay = max(wake_at - self._worker.store.now(), 0) / 1e6
            self._alarm = asyncio.get_running_loop().call_later(min(delay, 3_600), self.poke)

    def _stop_alarm(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    def _call_driver(self) -> None:
        """Have a task look at the run, unless one does."""
        if not self._is_driven and self.state == "held":
            self._is_driven = True
            self._worker.hands.drive(cast("Session", self))

    def _send(self, errand: Callable[[], Awaitable[None]]) -> None:
        """Have a task do what has to be awaited, also while a commit is on its way."""
        self._errand = errand
        self._call_driver()

    @property
    def _is_held_back(self) -> bool:
        """Tell whether the store takes no writes: nothing begins, and nobody parks, until then."""
        return self._worker.health.trouble is not None
