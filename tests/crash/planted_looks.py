"""Planted bugs that one look at a store does not show: what was there before has changed."""

from holdfast.model.run import Loaded
from holdfast.model.writes import Claim, Claimed
from tests.crash.planted import Wrapper


class Rewrites(Wrapper):
    """Tells whoever takes a run over another story of it."""

    async def load(self, ns: str, run: str, after: int = 0) -> Loaded | None:
        loaded = await self.inner.load(ns, run, after)
        if loaded is None or loaded.run.epoch == 1:
            return loaded
        first, *others = loaded.events
        return loaded._replace(events=(first._replace(took=7), *others))


class KeepsEpochs(Wrapper):
    """Gives a run to the next worker under the epoch of the last."""

    async def claim(self, claim: Claim) -> Claimed:
        claimed = await self.inner.claim(claim)
        kept = (run._replace(epoch=max(run.epoch - 1, 1)) for run in claimed.runs)
        return claimed._replace(runs=tuple(kept))
