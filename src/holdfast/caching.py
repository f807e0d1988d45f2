"""Results of steps that are kept for later calls, as seen from outside: count them, forget them."""

from __future__ import annotations

from holdfast.engines.local import LocalEngine
from holdfast.errors import InvalidValue
from holdfast.model.cache import LONGEST_KEY, CachedStep, CacheFilter
from holdfast.model.commands import ForgetResults

BATCH = 500
"""How many results are forgotten in one commit."""


class StepCache:
    """What is kept for later calls of steps with a cache. `client.cache` is one."""

    def __init__(self, engine: LocalEngine) -> None:
        self._engine = engine

    async def list(self, step: str = "", *, key: str = "") -> tuple[CachedStep, ...]:
        """Return how much is kept: of all steps, of one, or of one under this key.

        A step has an entry for each `version` of its cache. Raises `InvalidValue`.
        """
        wanted = CacheFilter(self._engine.ns, _text(step, "step"), _text(key, "key"))
        return tuple(await self._engine.store.cached(wanted))

    async def forget(self, step: str, *, key: str = "") -> int:
        """Forget what is kept of a step, of all versions, or only under this key; return how many.

        Calls that begin later run. Raises `InvalidValue`.
        """
        if not _text(step, "step"):
            problem = "an empty text names no step"
            hint = "Give its name; `list` has those of which something is kept."
            raise InvalidValue(where="forget", path="step", problem=problem, hint=hint)
        command = ForgetResults(self._engine.ns, step, _text(key, "key"), BATCH)
        total = 0
        while True:
            gone: int = await self._engine.do(command)
            total += gone
            if gone < BATCH:
                return total


def _text(given: object, path: str) -> str:
    if isinstance(given, str) and len(given) <= LONGEST_KEY and given.isprintable():
        return given
    problem = f"{given!r:.60} is no {'name of a step' if path == 'step' else 'key of a result'}"
    hint = f"Give a text of at most {LONGEST_KEY} printable characters."
    raise InvalidValue(where="cache", path=path, problem=problem, hint=hint)
