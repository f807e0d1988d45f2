"""`holdfast runs watch`: a run as it goes on."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.documents import event_document, say_json_line
from holdfast.cli.door import Door, found
from holdfast.cli.drawing import frame, say_ending
from holdfast.cli.runs.show import say_lines
from holdfast.cli.terminal import STDOUT
from holdfast.model.events import Event
from holdfast.model.family import report_of
from holdfast.model.run import Loaded, Run
from holdfast.model.status import CLOSED

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine

FRAMES = 0.1
"""Seconds between two looks at the clock while something is under way."""
TELLING = (
    "step.retrying", "step.deferred", "step.failed", "question.asked", "update.failed",
    "cancel.requested", "deadline.passed",
)  # fmt: skip
"""Events of what is tried again, waits for somebody, or went wrong."""


@click.command("watch")
@options.run_id
@click.option("--compact", "is_compact", is_flag=True,
              help="Only what is under way, waits or failed; what is done is counted.")  # fmt: skip
@click.option("--exit-status", is_flag=True, help="Exit 1 if the run did not complete.")
@click.option("--jsonl", is_flag=True, help="Print each event as JSON on a line of its own.")
@options.with_door
@click.pass_context
def command(
    ctx: click.Context, door: Door, run: str, is_compact: bool, exit_status: bool, jsonl: bool
) -> None:  # fmt: skip
    """Follow a run until it ends.

    In a pipe, --compact leaves out the events of what went well.
    """

    async def follow(engine: Any) -> Run:
        id = await found(engine, run)
        if STDOUT.is_person and not jsonl:
            return await live(engine, id, is_compact=is_compact)
        return await lines(engine, id, jsonl=jsonl, is_compact=is_compact)

    row = door.enter(follow)
    if exit_status and row.status != "completed":
        ctx.exit(1)


async def lines(engine: LocalEngine, run: str, *, jsonl: bool, is_compact: bool) -> Run:
    """Print each event as it comes, for programs."""
    async for event in engine.events(run, 0):
        if is_compact and not _is_telling(event):
            continue
        if jsonl:
            say_json_line(event_document(event))
        else:
            say_lines([event])
    return (await engine.load(run, 1 << 62)).run


def _is_telling(event: Event) -> bool:
    """Tell whether an event is of the run itself, or of something that does not simply go well."""
    if event.kind == "child.closed":
        return report_of(event.payload).status != "completed"
    return event.kind in TELLING or event.kind.startswith("run.")


async def live(
    engine: LocalEngine, run: str, *, is_brief: bool = False, is_compact: bool = False
) -> Run:
    """Draw the run again and again until it has ended, then say how."""
    row, events = await _drawn_live(engine, run, is_compact=is_compact)
    if not is_brief:
        say_ending(row, events)
    return row


async def _drawn_live(
    engine: LocalEngine, run: str, *, is_compact: bool
) -> tuple[Run, list[Event]]:
    import asyncio

    from rich.console import Console
    from rich.live import Live

    view = _View(await engine.load(run), is_compact=is_compact)
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

    def __init__(self, loaded: Loaded, *, is_compact: bool) -> None:
        self.run = loaded.run
        self.events = list(loaded.events)
        self.progress = loaded.progress
        self._is_compact = is_compact

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

        drawn = frame(self.run, self.events, now, self.progress, is_compact=self._is_compact)
        text = Text.from_ansi("\n".join(drawn))
        text.no_wrap, text.overflow = True, "crop"
        return text
