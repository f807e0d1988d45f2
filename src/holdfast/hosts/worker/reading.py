"""How a session comes to know its run: the history is replayed, the mail and the waits are read.

A run that was born here is known already: its history is one event, and nothing has to be read.
"""

from __future__ import annotations

from holdfast.hosts.worker import family, length, replay
from holdfast.hosts.worker.feeding import Feeding
from holdfast.hosts.worker.held import NO_RESULTS, NO_RETRIES, NOTHING_DEFERRED
from holdfast.hosts.worker.waiting import FEW_OF, has_answers
from holdfast.machine import Machine
from holdfast.machine.lines import take_lines
from holdfast.model.events import Event, since_start
from holdfast.model.run import SINCE_START, Loaded


class Reading(Feeding):
    """A run in hand that is read. `Session` goes on from there."""

    __slots__ = ()

    # --- the history

    async def _read(self) -> Loaded | None:
        """Return the run as it is stored, or as it was born. None: it is no longer ours."""
        if self._born is not None:
            return Loaded(self.run, (self._born,), self._mail)
        return await self._load(after=0 if self.run.generation == 1 else SINCE_START)

    def _take_in(self, loaded: Loaded) -> None:
        """Build the machine from the stored history. Raises what the body cannot go on with."""
        is_born, self._born, self._must_read = self._born is not None, None, False
        if self.machine.seq:  # it has seen what may not be stored
            self._begin_again()
        if loaded.run.generation != self.run.generation:
            self._begin_generation(loaded.run.generation)
        self.run, self.seq = loaded.run, loaded.run.seq
        self.inbox_seq = loaded.run.inbox_seq
        if loaded.progress or self.notebook is not None:
            self.notes().know(loaded.progress)
        if not is_born:
            self._mail, self._mail_came, self._waiting = loaded.mail, False, ()
        is_first = loaded.run.generation == 1
        self._replay(loaded.events if is_first else tuple(since_start(loaded.events)))
        for key in [key for key in self.running if self.machine.asks.get(key) is None]:
            self.running.pop(key).stop()
        self._resumes = True

    def _take_in_born(self, born: Event) -> None:
        """The same of a run that begins here and now: nothing happened before."""
        self._born, self._must_read, self._resumes = None, False, False
        if self._worker.observing is not None:
            self._worker.observing.read(self.run, (born,))
        machine = self.machine
        machine.feed(born)
        if machine.lines:
            self.notes().begin(take_lines(machine), born.at)
        self.last_at = born.at
        if born.key or machine.children is not None:
            self.family = family.family_of((born,), self.run, machine, None)
        if machine.outside is not None:
            self.outside().recall(NOTHING_DEFERRED)

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

    def _begin_again(self) -> Machine:
        self.machine.close()
        self.machine = self._worker.new_machine(self.run)
        return self.machine

    def _begin_generation(self, generation: int) -> None:
        """Forget what the former body asked for: its keys mean something else from now on."""
        self.run = self.run._replace(generation=generation)
        self._stop_steps()
        self._results, self._retries, self._shown = NO_RESULTS, NO_RETRIES, ()
        self._intents = ()

    # --- the mail, and what comes from outside

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
