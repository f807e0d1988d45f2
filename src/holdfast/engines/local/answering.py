"""Settling what a run waits for from outside: the door that answers and outcomes come in by.

What does not fit the stored schema is refused before anything is stored, and so is what comes too
late, with the reason. Between the look and the write the row may change; the write knows its secret
and finds it open, or it is refused, too.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from holdfast.errors import AnswerRefused, InvalidToken, InvalidValue, RunClosed
from holdfast.model.commands import AnswerRun
from holdfast.model.shapes import misfit, wanted
from holdfast.model.status import CLOSED
from holdfast.model.waits import Token, Wait, WaitFilter, asked_of, token_of

if TYPE_CHECKING:
    from holdfast.engines.local.engine import LocalEngine


async def answer(engine: LocalEngine, run: str, key: str, value: bytes, by: str = "") -> bool:
    """Answer an open question; False if it was answered just so before.

    Raises `RunNotFound`, `RunClosed`, `AnswerRefused`, or `InvalidValue` if it does not fit.
    """
    wait = await _row(engine, run, key)
    if wait is None or wait.kind != "question":
        raise await unknown(engine, run, key)
    return await _settle(engine, wait, value, by, what=f"answer to {key}")


async def complete(engine: LocalEngine, text: str, outcome: bytes, by: str = "") -> bool:
    """Give the outcome of the attempt that a token names; False if it was given just so before.

    Raises `InvalidToken`, `RunNotFound`, `RunClosed`, `AnswerRefused` or `InvalidValue`.
    """
    token = token_of(text)
    if token.ns != engine.ns:
        raise InvalidToken(value=text)
    wait = await _row(engine, token.run, token.key)
    if wait is None:
        await engine.load(token.run, 1 << 62)
        problem = "the store does not know this token"
        raise AnswerRefused(run=token.run, key=token.key, problem=problem)
    if wait.secret != token.secret:
        raise AnswerRefused(run=token.run, key=token.key, problem=_outdated(wait, token))
    return await _settle(engine, wait, outcome, by, what=f"result of {token.key}")


async def open_keys(engine: LocalEngine, run: str) -> list[Wait]:
    """Return the open questions of one run, the oldest first."""
    rows = await engine.store.waits(WaitFilter(engine.ns, run, kind="question"))
    return [row for row in rows if row.state == "open"]


async def _row(engine: LocalEngine, run: str, key: str) -> Wait | None:
    rows = await engine.store.waits(WaitFilter(engine.ns, run, key))
    return rows[0] if rows else None


async def _settle(engine: LocalEngine, wait: Wait, value: bytes, by: str, *, what: str) -> bool:
    if wait.state == "open":
        _check(wait, value, what)
        at = engine.store.now()
        command = AnswerRun(wait.ns, wait.run, wait.key, wait.secret, value, at, by)
        if await engine.do(command):
            return True
        wait = await _row(engine, wait.run, wait.key) or wait
    if wait.state == "answered" and (wait.answer, wait.by) == (value, by):
        return False
    raise _refused(wait)


def _check(wait: Wait, value: bytes, what: str) -> None:
    """Refuse what the code that asks could not read."""
    if value.startswith(b"!"):
        return
    schema = asked_of(wait).schema
    problem = misfit(schema, json.loads(value), root=what.partition(" ")[0])
    if problem is not None:
        path, told = problem
        raise InvalidValue(where=what, path=path, problem=told, hint=f"Give {wanted(schema)}.")


async def unknown(engine: LocalEngine, run: str, key: str) -> AnswerRefused | RunClosed:
    """Return the error of an answer to something that is not asked. Raises `RunNotFound`."""
    row = (await engine.load(run, 1 << 62)).run
    if row.status in CLOSED:
        return RunClosed(run=run, status=row.status)
    listed = ", ".join(each.key for each in await open_keys(engine, run)) or "none"
    return AnswerRefused(run=run, key=key, problem=f"it asks no such question; open are: {listed}")


def _outdated(wait: Wait, token: Token) -> str:
    if wait.generation != token.generation:
        return "the run was reopened since, and the step has another token"
    if wait.attempt > token.attempt:
        return f"attempt {token.attempt} is over, and attempt {wait.attempt} has another token"
    return "the step has another token"


def _refused(wait: Wait) -> AnswerRefused:
    at = wait.settled_at
    when = "" if at is None else f" at {_when(at)}"
    problem = (
        f"{wait.why}{when}" if wait.state == "over" else f"{wait.by or 'somebody'} gave one{when}"
    )
    if wait.state == "open":
        problem = "it was asked anew meanwhile"
    return AnswerRefused(run=wait.run, key=wait.key, problem=problem, by=wait.by, at=at)


def _when(at: int) -> str:
    return f"{datetime.fromtimestamp(at // 1_000_000, UTC):%Y-%m-%d %H:%M:%S} UTC"
