"""Giving secrets to runs: with their start, or when they wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.errors import RunClosed, RunNotFound
from holdfast.model.commands import StartRun
from holdfast.model.run import Run
from holdfast.model.secrets import Secret
from holdfast.model.status import CLOSED

if TYPE_CHECKING:
    from holdfast.engines.local.engine import LocalEngine


async def start(
    engine: LocalEngine,
    command: StartRun,
    secrets: Mapping[str, Secret],
    id: str,
    *,
    is_known: bool,
) -> Run:
    """Start a run that is given secrets, or find it, and give them to it.

    `id` is that of the message which tells a found run of them. Raises `InvalidValue` if nobody
    here could keep them.
    """
    command = engine.vault.take(command, secrets, is_known=is_known)
    run, is_new = await engine.start(command, is_known=is_known)
    if is_new:
        engine.vault.keep(run.id, secrets)
    elif run.status not in CLOSED:
        with suppress(RunClosed, RunNotFound):
            await supply(engine, run.id, secrets, id)
    return run


async def supply(engine: LocalEngine, run: str, secrets: Mapping[str, Secret], id: str) -> None:
    """Give an open run secrets that its steps lack.

    Raises `RunNotFound`, `RunClosed`, or `InvalidValue` if nobody here could keep them.
    """
    vault = engine.vault
    before = dict(vault.given.get(run, {}))
    command = vault.supplying(run, secrets, id, engine.store.now())
    vault.keep(run, secrets)  # first: who hears of it looks for it at once
    try:
        await engine.do(command)
    except (RunClosed, RunNotFound):
        vault.given.pop(run, None)
        if before:
            vault.keep(run, before)
        raise
