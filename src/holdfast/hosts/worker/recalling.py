"""Steps that may use the result of a former call: looked up before they begin, kept when they end.

    asked for -> looked up, all of a turn at once -> found: the answer, without an attempt
                                                  -> not found: the attempt; its result is kept by
                                                     the commit that records it

What was found is recorded as any answer is: a replay needs nothing of the cache. Only a first
attempt is looked up. Of two runs that look for the same at once, both run the step, and the result
that is recorded last stays.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from holdfast.errors import BadCacheKey, StoreError
from holdfast.hosts.worker.attempts import options_of
from holdfast.hosts.worker.queued import is_job
from holdfast.hosts.worker.steps import Result
from holdfast.hosts.worker.turn import Draft
from holdfast.model.asks import StepAsk
from holdfast.model.cache import (
    Cache,
    CachedResult,
    CacheKey,
    checked_cache_key,
    digest_key,
)
from holdfast.model.events import CACHED
from holdfast.model.writes import Remember

if TYPE_CHECKING:
    from holdfast.hosts.worker.feeding import Feeding
    from holdfast.hosts.worker.worker import Worker

log = logging.getLogger("holdfast.worker")

AT_ONCE = 500
"""Keys of one look."""
_told: set[tuple[str, str]] = set()
"""Steps and versions of which something unreadable was found, so that it is said once."""


class Recalling:
    """What the cached steps of one held run look for. Most runs have none."""

    __slots__ = ("_keys", "_looking", "_missed", "_session", "pending")

    def __init__(self, session: Feeding) -> None:
        self._session = session
        self.pending: dict[str, StepAsk] = {}
        """The steps that are being looked for, by their keys in the run."""
        self._missed: set[str] = set()
        self._keys: dict[str, CacheKey] = {}
        self._looking: asyncio.Task[None] | None = None

    # --- before they begin

    def is_open(self, ask: StepAsk, number: int) -> bool:
        """Tell whether it is not known yet if a step has to run."""
        return number == 1 and not self._session.anew and ask.key not in self._missed

    def is_ready(self, ask: StepAsk, number: int) -> bool:
        """Tell whether a step has to run here; if that is not known yet, have it looked up."""
        if not self.is_open(ask, number):
            if is_job(ask):
                self._session.poke()  # its job is written in the next turn
            return not is_job(ask)
        if ask.key not in self.pending:
            self.pending[ask.key] = ask
            if self._looking is None:
                # It begins after what is ready now: all of this turn is looked up together.
                self._looking = asyncio.get_running_loop().create_task(self._look())
        return False

    async def _look(self) -> None:
        session = self._session
        while self.pending:
            asks = dict(itertools.islice(self.pending.items(), AT_ONCE))
            results, wanted = list[Result](), dict[str, CacheKey]()
            for key, ask in asks.items():
                try:
                    wanted[key] = self._keys[key] = _key_of(ask)
                except BadCacheKey as error:
                    results.append(Result(ask, 1, 0, error=error))
            found = await session.look_up(list(wanted.values()))
            for key, ask in asks.items():
                if self.pending.pop(key, None) is not None and key in wanted:
                    results += self._used(ask, found.get(wanted[key]))
            if not self.pending:
                self._looking = None
            session.recalled(results)

    def _used(self, ask: StepAsk, kept: CachedResult | None) -> list[Result]:
        """Return the answer that a step has without running; none if it has to run."""
        if kept is not None:
            where = f"cached result of step {ask.key}"
            try:
                value = ask.step.signature.result.decode(kept.result, where=where)
                return [Result(ask, 1, CACHED, kept.result, value)]
            except Exception as error:  # a validator of the user's may raise anything
                _tell(kept, error)
        self._missed.add(ask.key)
        return []

    # --- when they have ended

    def keep(self, draft: Draft, result: Result) -> None:
        """Have the result kept by the commit that records it, unless it came from there."""
        ask, cache = result.ask, options_of(result.ask).cache
        if cache is None or result.took == CACHED or result.payload is None:
            return
        key = self._keys.get(ask.key)
        if key is None:
            try:
                key = _key_of(ask)
            except BadCacheKey as error:  # it was another one when the step began
                log.warning("the result of %s is not kept for others: %s", ask.key, error)
                return
        ns, run, at = draft.run.ns, draft.run.id, draft.at
        kept = CachedResult(ns, *key, result.payload, run, at, cache.expires_at(at))
        draft.send(Remember(ns, kept))

    def forget(self, key: str) -> None:
        """The step has ended, or is asked for no more."""
        self.pending.pop(key, None)
        self._keys.pop(key, None)
        self._missed.discard(key)

    def stop(self) -> None:
        """Look for nothing any more."""
        for key in (*self.pending, *self._missed):
            self.forget(key)
        if self._looking is not None:
            self._looking.cancel()
            self._looking = None


async def patiently(
    worker: Worker, ns: str, wanted: Collection[CacheKey]
) -> Mapping[CacheKey, CachedResult]:
    """Read what is kept, however long the store is away."""
    if not wanted:
        return {}
    for failures in itertools.count():
        try:
            return await worker.store.recall(ns, tuple(wanted))
        except StoreError as error:
            worker.health.failed(error)
            await worker.be_patient(failures)
    raise AssertionError("there are always more numbers")


def _key_of(ask: StepAsk) -> CacheKey:
    """Return under what the result of a call is kept. Raises `BadCacheKey`."""
    cache: Cache = options_of(ask).cache  # type: ignore[assignment]  # pyright: ignore[reportAssignmentType]
    step = ask.step
    if cache.key is None:
        return CacheKey(step.name, cache.version, digest_key(ask.args))
    try:
        args, kwargs = step.signature.decode(ask.args)
        given = cache.key(*args, **kwargs)
    except Exception as error:
        problem = f"cannot be made: {type(error).__name__}: {error}"
        raise BadCacheKey(step=step.name, problem=problem) from error
    return CacheKey(step.name, cache.version, checked_cache_key(given, step.name))


def _tell(kept: CachedResult, error: Exception) -> None:
    """Say once that what is kept does not fit the step any more; it is made anew."""
    if (kept.step, kept.version) not in _told:
        _told.add((kept.step, kept.version))
        log.warning(
            "a cached result of step %s does not fit it any more, and is made anew: %s. "
            "Give hf.Cache another `version` when a step returns something else.",
            kept.step, error,
        )  # fmt: skip
