"""`holdfast runs watch`: a run as it goes on."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.documents import event_document, say_json
from holdfast.cli.door import Door, found
from holdfast.cli.drawing import frame, say_ending
from holdfast.cli.runs.show import say_lines
from holdfast.cli.terminal import STDOUT
from holdfast.model.events import Event
from holdfast.model.run import Loaded, Run
from holdfast.model.status import CLOSED

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine

FRAMES = 0.1
"""Seconds between two looks at the clock while something is under way."""


@click.command("watch")
@options.run_id
@click.option("--exit-status", is_flag=True, help="Exit 1 if the run did not complete.")
@click.option("--jsonl", is_flag=True, help="Print each event as JSON on a line of its own.")
@options.with_door
@click.pass_context
def command(ctx: click.Context, door: Door, run: str, exit_status: bool, jsonl: bool) -> None:
    """Follow a run until it ends."""

    async def follow(engine: Any) -> Run:
        id = await found(engine, run)
        if STDOUT.is_person and not jsonl:
            return await live(engine, id)
        return await lines(engine, id, jsonl=jsonl)

    row = door.enter(follow)
    if exit_status and row.status != "completed":
        ctx.exit(1)


async def lines(engine: LocalEngine, run: str, *, jsonl: bool) -> Run:
    """Print each event as it comes, for programs."""
    async for event in engine.events(run, 0):
        if jsonl:
            say_json(event_document(event))
        else:
            say_lines([event])
    return (await engine.load(run, 1 << 62)).run


async def live(engine: LocalEngine, run: str, *, is_brief: bool = False) -> Run:
    """Draw the run again and again until it has ended, then say how."""
    row, events = await _drawn_live(engine, run)
    if not is_brief:
        say_ending(row, events)
    return row


async def _drawn_live(engine: LocalEngine, run: str) -> tuple[Run, list[Event]]:
    import asyncio

    from rich.console import Console
    from rich.live import Live

    view = _View(await engine.load(run))
    console = Console(
        file=STDOUT.stream, force_terminal=True, highlight=False, no_color=not STDOUT.has_colour
    )
    with Live(view.picture(engine.store.now()), console=console, auto_refresh=False) as screen:
        reading = asyncio.ensure_future(view.read(engine))
        try:
            while not reading.done():
                await asyncio.wait({reading}, timeout=FRAMES)
                screen.update(view.picture(engine.store.now()), refresh=True)
            await reading
        finally:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading
    return view.run, view.events


class _View:
    """What is on the screen."""

    def __init__(self, loaded: Loaded) -> None:
        self.run = loaded.run
        self.events = list(loaded.events)
        self.progress = loaded.progress

    async def read(self, engine: LocalEngine) -> None:
        """Take in each event as it comes, and the row beside it, until the run is closed."""
        import asyncio

        watching = asyncio.ensure_future(self._watch_row(engine))
        try:
            async for event in engine.events(self.run.id, self._last):
                self.events.append(event)
            self._take(await engine.load(self.run.id, 1 << 62))
        finally:
            watching.cancel()

    def _take(self, loaded: Loaded) -> None:
        self.run, self.progress = loaded.run, loaded.progress

    @property
    def _last(self) -> int:
        return self.events[-1].seq if self.events else 0

    async def _watch_row(self, engine: LocalEngine) -> None:
        """Parking and heartbeats leave no event, so the row is read as well."""
        import asyncio

        while self.run.status not in CLOSED:
            self._take(await engine.load(self.run.id, 1 << 62))
            await asyncio.sleep(5 * FRAMES)

    def picture(self, now: int) -> Any:
        """Return the frame of this moment."""
        from rich.text import Text

        text = Text.from_ansi("\n".join(frame(self.run, self.events, now, self.progress)))
        text.no_wrap, text.overflow = True, "crop"
        return text
