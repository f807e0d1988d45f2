"""Steps that list secrets: they begin when all of these are here, and wait without an attempt.

A run whose steps lack one parks, says which in its reason, and is looked at again from time to
time, and when somebody supplies one. Nothing of it is recorded: a replay asks for the step anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from holdfast.engines.local.vault import Lacking
from holdfast.fronts.function.context import NO_SECRETS
from holdfast.hosts.worker.attempts import options_of
from holdfast.model.asks import StepAsk
from holdfast.model.redacting import redact
from holdfast.model.secrets import Secret

if TYPE_CHECKING:
    from holdfast.hosts.worker.feeding import Feeding

LOOK_AGAIN = 60.0
"""Seconds until a secret that is nowhere is looked for again."""
AFTER_ERROR = 10.0
"""... and one that could not be read."""


class Lacked(NamedTuple):
    """A step that cannot begin before `at`, and why."""

    number: int
    at: int
    name: str
    why: str


class Needing:
    """What the steps of one held run need. Most runs have none of it."""

    __slots__ = ("_fetching", "_given", "_hurried", "_ready", "_session", "lacking")

    def __init__(self, session: Feeding) -> None:
        self._session = session
        self._fetching: dict[str, asyncio.Task[None]] = {}
        self._hurried: set[str] = set()
        self._ready: dict[str, Mapping[str, Secret]] = {}
        self._given: dict[str, Mapping[str, Secret]] = {}
        self.lacking: dict[str, Lacked] = {}

    def is_ready(self, ask: StepAsk, number: int) -> bool:
        """Tell whether an attempt has all it lists; if not, see to it that it will."""
        key = ask.key
        if (found := self._ready.pop(key, None)) is not None:
            self._given[key] = found
            return True
        if key in self._fetching:
            return False
        deadline = self._deadline(ask)
        if deadline is not None and deadline <= self._session.clock():
            return True  # only to end: its time is over before it begins
        self.lacking.pop(key, None)
        fetching = self._fetch(ask, number)
        self._fetching[key] = asyncio.get_running_loop().create_task(fetching)
        return False

    def of(self, key: str) -> Mapping[str, Secret]:
        """Return what an attempt that runs was given."""
        return self._given.get(key, NO_SECRETS)

    @property
    def is_fetching(self) -> bool:
        """Tell whether something is being looked for now."""
        return bool(self._fetching)

    @property
    def pending(self) -> Collection[str]:
        """The keys of steps that are asked for and cannot begin yet."""
        return {*self._fetching, *self.lacking}

    def due(self) -> list[tuple[StepAsk, int]]:
        """Return the steps whose secrets are to be looked for again."""
        now, asks = self._session.clock(), self._session.machine.asks
        self.lacking = {key: each for key, each in self.lacking.items() if key in asks}
        return [(asks[key], each.number) for key, each in self.lacking.items() if each.at <= now]

    def next_due(self) -> list[int]:
        """Return when to look again."""
        return [each.at for each in self.lacking.values()]

    def reasons(self) -> list[str]:
        """Say what is missing, and how to give it."""
        run = self._session.run.id
        return [
            f"{each.why}, for {key}: `holdfast runs secret {run} {each.name}`"
            for key, each in self.lacking.items()
        ]

    def hurry(self) -> None:
        """Look again at once: somebody has supplied a secret."""
        self.lacking = {key: each._replace(at=0) for key, each in self.lacking.items()}
        self._hurried.update(self._fetching)

    def forget(self, key: str) -> None:
        """The step has ended, or is asked for no more."""
        for kept in (self._ready, self._given, self.lacking):
            kept.pop(key, None)
        if (task := self._fetching.pop(key, None)) is not None:
            task.cancel()

    def stop(self) -> None:
        """Look for nothing any more."""
        for key in tuple({*self.pending, *self._ready, *self._given}):
            self.forget(key)

    async def _fetch(self, ask: StepAsk, number: int) -> None:
        key, session = ask.key, self._session
        try:
            self._ready[key] = await session.fetch(ask.step.secrets)
        except Lacking as error:
            wait = LOOK_AGAIN if error.is_certain else AFTER_ERROR
            at, deadline = session.clock() + round(wait * 1e6), self._deadline(ask)
            at = at if deadline is None else min(at, deadline)
            if key in self._hurried:
                at = 0  # it came after we had looked
            self.lacking[key] = Lacked(number, at, error.name, redact(str(error)))
        self._fetching.pop(key, None)
        self._hurried.discard(key)
        session.go_on()

    def _deadline(self, ask: StepAsk) -> int | None:
        total = options_of(ask).total_timeout
        return None if total is None else max(ask.asked_at, self._session.reopened_at) + total
