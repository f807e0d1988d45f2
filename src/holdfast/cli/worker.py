"""`holdfast worker`: run an app's workflows until told to stop.

A store that is away at the start is waited for. The first SIGINT or SIGTERM drains: nothing new is
claimed, steps that run may end, every run is given back, and the lease is renewed meanwhile. The
second one leaves at once, whatever keeps the event loop.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli.metrics import address, metrics_of
from holdfast.cli.options import APP, AppName, with_url
from holdfast.cli.terminal import STDERR, clean
from holdfast.cli.words import count

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

    from holdfast.app import App, Definition
    from holdfast.hosts.worker import Worker
    from holdfast.model.settings import Settings

INTERRUPTED = 130
LISTED = 8


@click.command("worker")
@click.argument("app", envvar=APP, type=AppName(), metavar="APP")
@with_url
@click.option("--steps", type=click.IntRange(1), default=100, show_default=True,
              help="How many steps may run at once.")  # fmt: skip
@click.option("--threads", type=click.IntRange(1), default=32, show_default=True,
              help="How many of them may be plain functions.")  # fmt: skip
@click.option("--lease", type=click.FloatRange(0.1), default=30.0, show_default=True,
              help="Seconds after which others take over from a frozen worker.")  # fmt: skip
@click.option("--drain", type=click.FloatRange(0), default=5.0, show_default=True,
              help="Seconds running steps get to end when the worker stops.")  # fmt: skip
@click.option("--queue", "queues", multiple=True, metavar="NAME",
              help="A queue to serve; may be given often. Without it: all.")  # fmt: skip
@click.option("--metrics", callback=address, metavar="[HOST:]PORT",
              help="Serve metrics for Prometheus here; the host is 127.0.0.1.")  # fmt: skip
@click.option("-v", "--verbose", is_flag=True, help="Log more.")
def command(
    app: str,
    url: str,
    lease: float,
    queues: tuple[str, ...],
    metrics: tuple[str, int] | None,
    verbose: bool,
    **limits: Any,
) -> None:
    """Run an app's workflows until told to stop. APP is module:app or path/file.py.

    Ctrl-C (or SIGTERM) finishes the steps that run and gives the runs back; a second one leaves
    at once.
    """
    import asyncio

    from holdfast.cli.loading import load_app
    from holdfast.model.settings import Settings

    _log(verbose)
    settings = Settings(lease=lease, renew=lease / 3, queues=queues or None, **limits)
    loaded = load_app(app)
    with metrics_of(loaded, metrics):
        asyncio.run(_work(loaded, url, settings))


async def _work(app: App, url: str, settings: Settings) -> None:
    from holdfast.fronts.function import lint

    # A wrong annotation stops the worker here, not a run later; and the first run need not wait.
    definitions: list[Definition] = [*app.versions, *app.steps.values()]
    for definition in definitions:
        _ = definition.signature
    lint.tell(app.versions)
    with _listening() as stopping:
        await _work_until(stopping, app, url, settings)


async def _work_until(stopping: asyncio.Event, app: App, url: str, settings: Settings) -> None:
    from holdfast.cli.door import store_at
    from holdfast.compose import declare, keys_of, must_be_here
    from holdfast.hosts.worker import Worker
    from holdfast.hosts.worker.opening import open_unless
    from holdfast.talking import new_id

    store = store_at(url)
    if not await open_unless(stopping, store):
        STDERR.say(STDERR.dim("stopped; nothing was begun"))
        return
    try:
        must_be_here(store)
        await declare(app, store)
        worker = Worker(app, store, id=new_id(store.now()), settings=settings)
        worker.vault.keys = keys_of()
        async with worker:
            _greet(app, url, worker)
            await stopping.wait()
    finally:
        await store.close()
    STDERR.say(STDERR.dim("stopped; every run was given back"))


@contextlib.contextmanager
def _listening() -> Generator[asyncio.Event]:
    """Give what the first signal sets.

    The second one is not the loop's to hear: a step may block that for as long as it likes.
    """
    import asyncio

    loop, stopping = asyncio.get_running_loop(), asyncio.Event()
    heard: list[int] = []

    def stop() -> None:
        STDERR.say(
            STDERR.dim("stopping when the steps that run have ended; again to leave at once")
        )
        stopping.set()

    def hear(number: int, _: FrameType | None) -> None:
        if heard:
            _leave()
        heard.append(number)
        with contextlib.suppress(RuntimeError):  # the loop is closed: we are leaving
            loop.call_soon_threadsafe(stop)

    former = {number: signal.signal(number, hear) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopping
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


def _leave() -> None:
    """End the process in the midst of whatever it does, which may be to print."""
    try:
        os.write(
            sys.stderr.fileno(), b"left at once; runs in hand are taken over by the next worker\n"
        )
    finally:
        # Threads of sync steps would keep the interpreter alive.
        os._exit(INTERRUPTED)


def _greet(app: App, url: str, worker: Worker) -> None:
    """Say who works on what, in one line."""
    from holdfast.compose import masked

    names = sorted(app.workflows)
    listed = ", ".join(map(clean, names[:LISTED])) + (", …" if len(names) > LISTED else "")
    facts = [
        f"app {STDERR.style(app.name, bold=True)}",
        f"store {masked(url)}",
        f"{count(len(names), 'workflow')}: {listed or 'none'}",
        f"pid {os.getpid()}",
        f"id {STDERR.style(worker.id, fg='cyan')}",
    ]
    queues = worker.settings.queues
    if queues is not None:
        facts.insert(2, f"{count(len(queues), 'queue')}: {', '.join(map(clean, queues))}")
    ready = STDERR.style("●", fg="green")
    STDERR.say(f"{ready} holdfast worker · {' · '.join(facts)}")


def _log(verbose: bool) -> None:
    import logging

    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.INFO,
        format="%(asctime)s %(levelname)-7s %(name)s  %(message)s",
        datefmt="%H:%M:%S",
    )
    logging.getLogger("asyncio").setLevel(logging.WARNING)
