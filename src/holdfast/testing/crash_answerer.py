"""How a careful caller answers questions, and completes steps from outside."""

from __future__ import annotations

import asyncio
import json

from holdfast.errors import AnswerRefused, RunClosed
from holdfast.model.waits import WaitFilter, token_in
from holdfast.testing.crash_talker import Talker


class Answerer(Talker):
    """Settles what runs wait for from outside."""

    async def answer(self, run: str, key: str, value: object, by: str = "") -> bool:
        """Answer a question once it is open; tell whether this answer is the one that counts."""
        while True:
            try:
                await self._surely(lambda: self._client.get(run).answer(key, value, by=by))
            except RunClosed:
                return False
            except AnswerRefused as refused:
                if refused.at is not None:
                    return False
                await asyncio.sleep(0.5)
            else:
                self._told.answers.add((run, key, by))
                return True

    async def until_asked(self, run: str, to: str) -> None:
        """Return once somebody is asked something by the run."""
        engine = self._client.engine
        wanted = WaitFilter(engine.ns, run, to=to)
        while True:
            if await self._surely(lambda: engine.store.waits(wanted)):
                return
            await asyncio.sleep(0.5)

    async def complete(self, run: str, key: str, value: object, *, failing: str = "") -> bool:
        """Complete a step once it is deferred, or have it fail so; tell whether that counts."""
        token, client = await self._token(run, key), self._client

        async def act() -> bool:
            return await (client.fail(token, failing) if failing else client.complete(token, value))

        try:
            await self._surely(act)
        except (AnswerRefused, RunClosed):
            return False
        return True

    async def _token(self, run: str, key: str) -> str:
        """Return the token of a step, once its code has ended without an outcome."""
        engine = self._client.engine
        while True:
            waits = await self._surely(lambda: engine.store.waits(WaitFilter(engine.ns, run, key)))
            events = (await self._surely(lambda: engine.load(run))).events
            told = [json.loads(e.payload or b"{}") for e in events if e.kind == "step.deferred"]
            if waits and waits[0].attempt in {each["attempt"] for each in told}:
                return token_in(waits[0])
            if waits and waits[0].state != "open":
                return token_in(waits[0])
            await asyncio.sleep(0.5)
