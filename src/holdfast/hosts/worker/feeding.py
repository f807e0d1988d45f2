"""How a body is shown what has come: one thing at a time, in the order of the draft.

Messages come first, and a cancel before all of them; then answers, then due timers, then the
deadline. What the body says on an event is recorded right after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.errors import BodyStuck
from holdfast.fronts.function.completing import CompleteLater
from holdfast.hosts.worker import attempts, family, overdue, telling
from holdfast.hosts.worker.conversing import Conversing
from holdfast.hosts.worker.held import NO_RESULTS
from holdfast.hosts.worker.needing import Needing
from holdfast.hosts.worker.recalling import Recalling, patiently
from holdfast.hosts.worker.steps import Result
from holdfast.hosts.worker.turn import Draft
from holdfast.hosts.worker.waiting import Waiting
from holdfast.machine.lines import take_lines
from holdfast.model.asks import StepAsk, Turn
from holdfast.model.cache import CachedResult, CacheKey
from holdfast.model.events import Event
from holdfast.model.run import Message
from holdfast.model.status import CLOSED
from holdfast.model.waits import Wait


class Feeding(Conversing):
    """A run in hand whose machine is fed. `Session` commits what comes of it."""

    __slots__ = ()

    def _feed(self, draft: Draft, results: list[Result], mail: tuple[Message, ...]) -> None:
        """Feed one thing at a time: messages first, a cancel before all, then answers."""
        if mail:
            results = self._feed_mail(draft, results, mail)
        if len(results) == 1:
            self._feed_result(draft, results[0])
        elif results:
            with self.machine.entered():
                for result in results:
                    self._feed_result(draft, result)

    def _feed_mail(
        self, draft: Draft, results: list[Result], mail: tuple[Message, ...]
    ) -> list[Result]:
        """Feed what came from outside; return the results that still count after it."""
        machine = self.machine
        for message in sorted(mail, key=lambda m: (m.kind != "cancel", m.n)):
            if machine.ended is not None and machine.ended.status == "continued":
                break  # it stays in the inbox, for the next generation
            self._feed_message(draft, message)
        return results if self.waits is None else self.waits.current(results)

    def _record_begun(self, draft: Draft) -> None:
        """Record the steps that run for a while, and those that are recorded before they begin."""
        shown, self._shown = self._shown, ()
        for step in shown:
            if self.running.get(step.key) is step:
                self.machine.feed(draft.add_started(step.ask, step.number))
        if self.draining or self.paused or self.machine.ended is not None:
            self._intents = ()
        draft.intends = tuple(ask for ask in self._intents if ask.key in self.machine.asks)
        self._intents = draft.intends
        for ask in draft.intends:
            self.machine.feed(draft.add_started(ask, 1))

    def _take_turn(self, draft: Draft) -> Turn:
        """Feed what is due, after all that came, and return what the body asks for now."""
        machine = self.machine
        self._fire_timers(draft)
        if self._waiting:
            self._admit(draft)
        if self._shown or self._intents:
            self._record_begun(draft)
        if machine.children is not None:
            family.start_children(self, draft)
        self._hear_body()
        turn = machine.take_turn()
        if self._resumes:
            self._resumes, turn.asks = False, self._unbegun()
        if machine.outside is not None:
            # What is decided next depends on it.
            turn.asks = self.outside().ours(turn.asks)
        return turn

    def _hear_body(self) -> None:
        """Pass on what the body says to people. Raises `BodyStuck` if it waits for nothing."""
        machine = self.machine
        if machine.warnings:
            telling.tell_warnings(machine)
        if machine.lines:
            self.notes().hear(take_lines(machine))
        if not machine.asks and machine.is_stuck():
            raise BodyStuck(source=machine.source())

    def _feed_message(self, draft: Draft, message: Message) -> None:
        if message.kind == "answer":
            self.outside().hear(draft, message)
            return
        event = draft.add_message(message)
        if event is None:
            if message.kind == "update":
                self._offer(draft, message)
            elif message.kind == "secret" and self.needs is not None:
                self.needs.hurry()
            return
        if message.kind == "pause":
            # What is cancelled goes on to its end.
            self.paused = self.cancelled_at is None
        elif message.kind == "cancel":
            self.cancelled_at = self.cancelled_at or event.at
            self.paused, self._deadline = False, None
        self.feed(draft, event)

    def feed(self, draft: Draft, event: Event) -> None:
        """Feed an event of this turn, and record what the body says on it."""
        self.machine.feed(event)
        if self.machine.notes:
            self._note(draft)

    def outside(self) -> Waiting:
        """Return what the run waits for from outside; most runs have none."""
        if self.waits is None:
            self.waits, self._is_bare = Waiting(self), False
        return self.waits

    def needing(self) -> Needing:
        """Return what its steps need before they begin; most runs have none."""
        if self.needs is None:
            self.needs, self._is_bare = Needing(self), False
        return self.needs

    def recalling(self) -> Recalling:
        """Return what its steps look for in the cache; most runs have no such steps."""
        if self.recalls is None:
            self.recalls, self._is_bare = Recalling(self), False
        return self.recalls

    def recalled(self, results: list[Result]) -> None:
        """Take what was found in the cache into the next turn, and begin the rest."""
        self._results = [*self._results, *results] or NO_RESULTS
        self.go_on()

    async def look_up(self, wanted: list[CacheKey]) -> Mapping[CacheKey, CachedResult]:
        """Return what is kept under these keys, however long the store is away."""
        self._worker.retention.caches = True
        return await patiently(self._worker, self.run.ns, wanted)

    def _settle_waits(self, draft: Draft) -> None:
        """Have the turn say what is waited for from outside; one that is set aside changes none."""
        if draft.status != "blocked":
            self.outside().settle(draft)

    async def _end_waits(self, draft: Draft) -> None:
        """Have nobody outside asked any more by a run that ends where it cannot go on."""
        if draft.status in CLOSED:
            self.outside().learn(await self._worker.waits_of(self.run))
            self.outside().settle(draft)

    def known_deferred(self) -> Mapping[str, object]:
        """Return the steps whose code has ended by the history, and whose outcome will come."""
        return self._deferred

    def asked_at(self, ask: StepAsk) -> int:
        """Return from when the time for all attempts counts: in a reopened run, from there."""
        return max(ask.asked_at, self._reopened_at)

    def has_job_of(self, step: Any) -> None:
        """Have this worker do such jobs, too, whoever registered the step."""
        self._worker.jobs.know(step)

    def look_at_job(self, row: Wait, looks: dict[str, int]) -> None:
        """See what became of a job that should have begun, or been over, by now."""
        self._worker.jobs.look_at(row, looks, self.poke)

    def feed_result(self, draft: Draft, result: Result) -> None:
        """Show the body how a step ended, if it still asks for it."""
        self._feed_result(draft, result)

    def _feed_result(self, draft: Draft, result: Result) -> None:
        key = result.ask.key
        if key not in self.machine.asks or self.machine.ended is not None:
            return
        if result.error is None:
            if self.recalls is not None:
                self.recalls.keep(draft, result)
            self._forget_attempts(key)
            self.machine.feed(
                draft.add_answer(result.ask, result.payload, result.took), result.value
            )
            if self.machine.notes:
                self._note(draft)
            return
        if isinstance(result.error, CompleteLater):
            self.outside().defer(draft, result)
            return
        decided = attempts.decide(result, result.error, self._worker.chance(), draft.at)
        if decided.retrying is None:
            self._forget_attempts(key)
        else:
            self._retries = self._retries or {}
            self._retries[key] = decided.retrying
        self.machine.feed(draft.add(decided.event))
        if self.machine.notes:
            self._note(draft)

    def _fire_timers(self, draft: Draft) -> None:
        machine = self.machine
        if not self.paused:
            if self.waits is not None:
                self.waits.expire(draft)
            while (
                machine.loop.timers.open
                and (timer := machine.next_timer()) is not None
                and timer[0] <= draft.at
            ):
                machine.feed(draft.add_timer(*timer, machine.loop.timers.asked_seq(timer[1])))
                if machine.notes:
                    self._note(draft)
        if self._deadline is not None and draft.at >= self._deadline:
            self._pass_deadline(draft, self._deadline)

    def _pass_deadline(self, draft: Draft, due: int) -> None:
        """Cancel the body, as a cancel does. A pause does not stop the clock."""
        if self.machine.ended is None:
            self._overdue = overdue.awaited(self.machine, self._retries)
            event = overdue.record(draft, due, self._overdue)
            self.cancelled_at, self.paused, self._deadline = event.at, False, None
            self.machine.feed(event)
            if self.machine.notes:
                self._note(draft)

    def _unbegun(self) -> list[StepAsk]:
        """Return what the body asks for and nobody has begun."""
        begun = self._begun() | self._retries.keys()
        return [ask for key, ask in self.machine.asks.items() if key not in begun]

    def _begun(self) -> set[str]:
        """Return the keys of steps that run, or whose outcome is on its way."""
        begun = {*self.running, *(result.ask.key for result in self._results)}
        begun.update(ask.key for ask in self._intents)
        if self.needs is not None:
            begun.update(self.needs.pending)
        if self.recalls is not None:
            begun.update(self.recalls.pending)
        return begun if self.waits is None else begun.union(self.waits.elsewhere())

    def _due_again(self) -> list[tuple[StepAsk, int]]:
        """Return the steps that did not end, or could not begin, and are due; with their number."""
        if not self._retries:
            return [] if self.needs is None else self.needs.due()
        now, begun, asks = self._stamp(), self._begun(), self.machine.asks
        due = [
            (asks[key], retrying.attempts + 1)
            for key, retrying in self._retries.items()
            if key in asks and retrying.at <= now and key not in begun
        ]
        return due if self.needs is None else due + self.needs.due()

    def _miss_outcomes(self, begun: frozenset[str]) -> None:
        """Fail what may run at most once, had begun, and is in nobody's hands."""
        here = self._begun().union(self._deferred)
        asked = [
            self.machine.asks[key] for key in begun.difference(here) & self.machine.asks.keys()
        ]
        lost = [ask for ask in asked if attempts.options_of(ask).at_most_once]
        self._results = [*self._results, *map(attempts.unknown, lost)] or NO_RESULTS
