"""Random operations around results that later calls may use: kept by turns, expired, forgotten."""

from holdfast.model.cache import CachedResult, CacheKey
from holdfast.model.commands import ForgetResults, StartRun
from holdfast.model.events import CACHED, Event
from holdfast.model.writes import Remember
from holdfast.testing.clock import SECOND
from tests.simulation.agreeing import Operation
from tests.simulation.operations import IDS, NAMESPACES, WORKERS, Draws, Operations

STEPS, VERSIONS, KEYS = ("fetch", "fetch2"), ("", "2"), ("k", "l", "käse")
EVERY_KEY = [CacheKey(s, version, key) for s in STEPS for version in VERSIONS for key in KEYS]


class CacheOperations(Operations):
    """Draws turns that keep results, and commands that forget them."""

    def _weighed(self) -> Draws:
        return {
            "start": (self._start, 6),
            "claim": (self._claim, 4),
            "keep": (self._keep, 24),
            "forget": (self._forget, 8),
            "close": (self._commit_end, 3),
            "rerun": (self._rerun, 2),
            "terminate": (self._terminate, 1),
            "reap": (self._reap, 3),
            "prune": (self._prune, 4),
        }

    def _start(self) -> Operation:
        ns, id = self.chance.choice(NAMESPACES), self.chance.choice(IDS)
        owner = self.chance.choice((None, *WORKERS))
        return StartRun(ns, id, "w", "", b"1", b"1", self.dump.now, owner=owner)

    def _keep(self) -> Operation:
        """Record answers of steps, some of them kept for others, some of them used from there."""
        run = self._run("running")
        if run is None:
            return self._start()
        events, sends = list[Event](), list[Remember]()
        turn = self._turn(run)
        for _ in range(self.chance.choice((1, 1, 2, 4))):
            key = self.chance.choice(EVERY_KEY)
            answer = Event("step.completed", 0, self._unique(f"{key.step}#"), self._result())
            if self.chance.random() < 0.2:
                answer = answer._replace(took=CACHED)
            else:
                life = self.chance.choice((None, 1, SECOND, 5 * SECOND, 20 * SECOND))
                until = None if life is None else turn.at + life
                kept = CachedResult(run.ns, *key, answer.payload or b"", run.id, turn.at, until)
                sends.append(Remember(run.ns, kept))
            events.append(answer._replace(asked_seq=1))
        turn = self._turn(run, *events)._replace(sends=tuple(sends))
        flaw = self.chance.random()
        if flaw < 0.1:
            return turn._replace(epoch=turn.epoch - 1)
        return turn._replace(seq=turn.seq - 1) if flaw < 0.15 else turn

    def _result(self) -> bytes:
        return b'"\x00\xff%s"' % self._unique("r").encode()

    def _forget(self) -> Operation:
        ns, limit = self.chance.choice(NAMESPACES), self.chance.choice((1, 2, 500))
        step = self.chance.choice(("", "", *STEPS))
        key = self.chance.choice(("", *KEYS)) if step else ""
        return ForgetResults(ns, step, key, limit)

    def _commit_end(self) -> Operation:
        run = self._run("running")
        return self._start() if run is None else self._end(run)
