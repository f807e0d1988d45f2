"""What a shell is offered while a command is typed. Nothing is ever an error here."""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import click

MOST = 200
"""How many of the newest runs are looked at."""


def runs(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return ids that begin so, newest first, and the shortcuts."""
    from holdfast.cli.door import SHORTCUTS

    ids = [run.id for run in _newest(ctx, id_prefix=incomplete)]
    return [*(name for name in SHORTCUTS if name.startswith(incomplete)), *ids]


def workflows(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the workflows of the newest runs."""
    return _beginning({run.workflow for run in _newest(ctx)}, incomplete)


def keys(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return the keys of the steps, timers and children that the typed run has recorded."""

    async def read(engine: Any) -> list[str]:
        from holdfast.cli.door import found
        from holdfast.model.events import CLASS_OF

        loaded = await engine.load(await found(engine, ctx.params.get("run") or "@last"))
        return [event.key for event in loaded.events if CLASS_OF[event.kind] == "answer"]

    return [key for key in _read(ctx, read) if key.startswith(incomplete)]


def filters(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """Return keys of the filter language, and values behind one.

    Some shells (bash) break words at the colon: then the key and the colon are words before.
    """
    words = [*(ctx.params.get("words") or ())]
    if incomplete == ":" or (words and words[-1] == ":"):
        key = words[-1 if incomplete == ":" else -2] if words else ""
        typed = "" if incomplete == ":" else incomplete
        before = incomplete if incomplete == ":" else ""
        return [before + value for value in _values(ctx, key.lstrip("-"), typed)]
    from holdfast.model.labels import KEYS

    sign, body = ("-", incomplete[1:]) if incomplete.startswith("-") else ("", incomplete)
    key, colon, typed = body.partition(":")
    if colon:
        return [f"{sign}{key}:{value}" for value in _values(ctx, key, typed)]
    return [f"{sign}{name}:" for name in KEYS if name.startswith(body)]


def _values(ctx: click.Context, key: str, typed: str) -> list[str]:
    from holdfast.model.filters import STATUSES

    done, comma, last = typed.rpartition(",")
    found: Iterable[str] = ()
    if key == "status":
        found = STATUSES
    elif key == "workflow":
        found = {run.workflow for run in _newest(ctx)}
    elif key == "queue":
        found = {run.queue for run in _newest(ctx)}
    elif key == "id":
        found = [run.id for run in _newest(ctx, id_prefix=last)]
    elif key in ("since", "before"):
        found = ("30m", "1h", "24h", "7d")
    return [f"{done}{comma}{value}" for value in _beginning(found, last)]


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(name for name in names if name.startswith(incomplete))


def _newest(ctx: click.Context, **fields: Any) -> list[Any]:
    """Return the newest runs, or none if the store cannot be read."""

    async def read(engine: Any) -> list[Any]:
        from holdfast.model.writes import Filter, Page

        found: list[Any] = await engine.find(Filter(engine.ns, **fields), Page(MOST))
        return found

    return _read(ctx, read)


def _read(ctx: click.Context, read: Callable[[Any], Coroutine[Any, Any, list[Any]]]) -> list[Any]:
    from holdfast.cli.door import DEFAULT_STORE, Door

    url = ctx.params.get("url") or os.environ.get("HOLDFAST_STORE") or DEFAULT_STORE
    name = ctx.params.get("namespace") or os.environ.get("HOLDFAST_NAMESPACE") or "default"
    # Whatever it is, the shell's line is no place for it.
    with suppress(Exception):
        return Door(url, name).enter(read)
    return []
