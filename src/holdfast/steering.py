"""Steering a run: stop it, let it go on, take it back; and what a fork of it is given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.engines.local import LocalEngine, answering, supplying, travel
from holdfast.errors import BadDefinition
from holdfast.fronts.function.step import Step
from holdfast.fronts.function.workflow import Bound, must_have_no_secrets, not_bound
from holdfast.machine.values import Schema, encoded
from holdfast.model.checks import checked_id, checked_key, checked_point, checked_reason
from holdfast.model.commands import CancelRun, PauseRun, ResumeRun, TerminateRun
from holdfast.model.secrets import Secret, checked_secrets
from holdfast.talking import checked_by, new_id


class Steered:
    """A run that can be told what to do."""

    def __init__(self, engine: LocalEngine, id: str) -> None:
        self._engine, self.id = engine, id

    def __repr__(self) -> str:
        return f"<run {self.id}>"

    async def cancel(self, reason: str = "") -> bool:
        """Ask the run to stop; its body may clean up. Tell whether this was the first cancel.

        Raises `RunNotFound` or `RunClosed`.
        """
        now, told = self._engine.store.now(), checked_reason(reason, "cancel")
        command = CancelRun(self._engine.ns, self.id, new_id(now), now, told)
        is_first: bool = await self._engine.do(command)
        return is_first

    async def terminate(self, reason: str = "") -> None:
        """End the run now; nothing of its body runs any more. Raises `RunClosed`."""
        await self._engine.do(self._at(TerminateRun, reason=checked_reason(reason, "terminate")))

    async def pause(self, reason: str = "") -> None:
        """Have the run start no more steps; those that run finish and are recorded."""
        now, told = self._engine.store.now(), checked_reason(reason, "pause")
        await self._engine.do(PauseRun(self._engine.ns, self.id, new_id(now), now, told))

    async def resume(self) -> None:
        """Let a paused run go on. Raises `IllegalMove` if it is not paused."""
        await self._engine.do(self._at(ResumeRun))

    async def retry(self, reason: str = "") -> None:
        """Let a failed, blocked or quarantined run try again from where it failed.

        What it has recorded is not run again, unless a saga has undone it. One that could not undo
        all goes on with what is owed. Raises `IllegalMove`.
        """
        told = checked_reason(reason, "retry")
        await self._engine.retry(self.id, self._engine.store.now(), told)

    async def rerun(
        self,
        from_: str | int | None = None,
        *,
        keep_keys: bool = False,
        exactly: bool = False,
        reason: str = "",
        id: str | None = None,
    ) -> Sequence[str]:
        """Take the run back to where it asked for the step `from_`, or to its start.

        A number is that of the last event that counts: steps that were asked for by then stay,
        unless `exactly`, when nothing does that was recorded later.
        Works on open and on closed runs. What was asked for later no longer counts; nothing is
        deleted. Steps run again under new idempotency keys, unless `keep_keys`. Returns the keys
        whose outcome no longer counts. Give an `id` to make a repeat harmless: it then changes
        nothing, and returns none. Raises `UnknownKey`, `RunNotFound` or `IllegalMove`.
        """
        key = checked_point(from_, where="rerun", path="from_")
        told = checked_reason(reason, "rerun")
        known = "" if id is None else checked_id(id, field="rerun id")
        back = travel.Back(key, told, keep_keys, exactly, known)
        return await travel.rerun(self._engine, self.id, back)

    async def answer(self, key: str, value: object, *, by: str = "") -> bool:
        """Answer an open question; False if it was answered just so before.

        `by` is who answers, kept in the history. The first answer counts. Raises `AnswerRefused`
        if there was another, or nobody waits for one; `InvalidValue` if it does not fit;
        `RunNotFound` or `RunClosed`.
        """
        told = encoded(value, where=f"answer to {key}")
        return await answering.answer(self._engine, self.id, key, told, checked_by(by))

    async def supply_secret(self, name: str, secret: Secret) -> None:
        """Give the run a secret that its steps list, and let them go on if they wait for it.

        It is stored encrypted if there is a key ring, else kept in memory by the worker here.
        Raises `RunNotFound`, `RunClosed`, or `InvalidValue` if there is neither.
        """
        given = checked_secrets({name: secret}, where="supply_secret")
        await supplying.supply(self._engine, self.id, given, new_id(self._engine.store.now()))

    def _at(self, command: Any, **fields: Any) -> Any:
        return command(ns=self._engine.ns, run=self.id, at=self._engine.store.now(), **fields)


def edited_results(
    results: Mapping[str, object], steps: Mapping[str, Step[..., Any]]
) -> dict[str, bytes]:
    """Return results for a fork, by the annotations of their steps. Raises `Unserialisable`."""
    found: dict[str, bytes] = {}
    for key, value in results.items():
        name = str(checked_key(key, where="fork", path="results")).rpartition("/")[2]
        step = steps.get(name.partition("#")[0])
        schema: Schema[Any] = Schema(object) if step is None else step.signature.result
        found[key] = schema.cross(value, where=f"result of {key}")[0]
    return found


def input_of(bound: Bound[Any], workflow: str) -> bytes:
    """Return the input of a fork, if it is of the run's workflow. Raises `BadDefinition`."""
    if not isinstance(bound, Bound):
        raise not_bound(bound, "run.fork")
    must_have_no_secrets(bound, "run.fork")
    if bound.workflow.name == workflow:
        return bound.input
    raise BadDefinition(
        what=f"fork was given input of {bound.workflow.name!r}, and the run is of {workflow!r}",
        hint="A fork is a run of the same workflow: start another one for another.",
    )
