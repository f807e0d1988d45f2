"""`holdfast run`: start a run of a workflow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import completing
from holdfast.cli.door import Door, opened
from holdfast.cli.options import APP, AppName, with_url
from holdfast.cli.proposing import typed, typed_worker
from holdfast.cli.terminal import STDERR, STDOUT

if TYPE_CHECKING:
    from holdfast.client import RunHandle
    from holdfast.engines.local import LocalEngine


@click.command("run")
@click.argument("workflow", shell_complete=completing.workflows)
@click.option(
    "-i", "--input", "given", multiple=True, metavar="JSON|@FILE|NAME=VALUE",
    help="The input; name=value may be given several times.",
)  # fmt: skip
@click.option("--key", metavar="ID", help="The run's id: the same id and input find the same run.")
@click.option(
    "--timeout", metavar="TIME",
    help="How long it may take: 3d, 12h, 90m, 45s, or none; without it, what the workflow says.",
)  # fmt: skip
@click.option(
    "--queue",
    metavar="NAME",
    help="The queue it waits on for a worker; without it, what the workflow says.",
)
@click.option("--priority", type=click.IntRange(1, 5), metavar="1-5",
              help="1 goes first, 5 last; without it, what the workflow says.")  # fmt: skip
@click.option("--queue-key", metavar="KEY", help="Its key on that queue: keys take turns.")
@click.option("--queue-timeout", metavar="TIME",
              help="How long it may wait there to begin: 3d, 12h, 90m, 45s.")  # fmt: skip
@click.option("--delay", "--in", "delay", metavar="TIME",
              help="When it begins, from now: 3d, 12h, 90m, 45s.")  # fmt: skip
@click.option("--start-at", "--at", "start_at", metavar="TIME",
              help="When it begins: 2027-01-31T08:00+01:00.")  # fmt: skip
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag; may be given often.")
@click.option(
    "--attribute", "pairs", multiple=True, metavar="NAME=VALUE",
    help="An attribute: a number, true, false, or else a text; may be given often.",
)  # fmt: skip
@click.option("--wait", "waits", is_flag=True, help="Follow the run and print its result.")
@click.option(
    "--app", "app_name", envvar=APP, required=True, type=AppName(), metavar="APP",
    help="module:app or path/file.py (or HOLDFAST_APP).",
)  # fmt: skip
@with_url
def command(
    workflow: str,
    given: tuple[str, ...],
    waits: bool,
    app_name: str,
    url: str,
    **told: Any,
) -> None:
    """Start a run of WORKFLOW. A worker carries it out: see `holdfast worker`.

    Prints the run's id, and nothing else when piped.
    """
    import asyncio

    from holdfast.cli.inputs import bound
    from holdfast.cli.loading import load_app
    from holdfast.errors import UnknownWorkflow

    app = load_app(app_name)
    definition = app.workflows.get(workflow)
    if definition is None:
        raise UnknownWorkflow(name=workflow, known=tuple(sorted(app.workflows)))
    work = bound(definition, given)
    how = _how(**told)

    async def start() -> None:
        from holdfast.client import Client

        async with opened(Door(url, app.namespace), creates=True) as engine:
            handle = await Client(app, engine).start(work, **how)
            tell = _wait if waits else _say
            await tell(engine, handle, typed_worker(url, app=app_name))

    asyncio.run(start())


def _how(
    *,
    key: str | None,
    timeout: str | None,
    tags: tuple[str, ...],
    pairs: tuple[str, ...],
    start_at: str | None,
    **place: Any,
) -> dict[str, Any]:
    """Return what `Client.start` is told beside the work."""
    from holdfast.cli.inputs import attributes_of, time_of
    from holdfast.cli.words import SECOND, length

    how: dict[str, Any] = {"id": key, "tags": tags, "attributes": attributes_of(pairs), **place}
    if timeout is not None:
        lasts = timeout != "none"
        how["timeout"] = length(timeout, field="--timeout") / SECOND if lasts else None
    for name in ("queue_timeout", "delay"):
        if how[name] is not None:
            how[name] = length(how[name], field=f"--{name.replace('_', '-')}") / SECOND
    if start_at is not None:
        how["start_at"] = time_of(start_at, "--start-at")
    return how


async def _say(engine: LocalEngine, handle: RunHandle[Any], worker: str) -> None:
    if not STDOUT.is_person:
        STDOUT.say(handle.id)
        return
    from holdfast.cli.drawing import header

    loaded = await handle.history()
    STDOUT.say(header(loaded.run, loaded.events, engine.store.now()))
    commands = [(typed("runs watch", handle.id, namespace=engine.ns), "see it go on")]
    if not await _has_worker(engine):
        commands.insert(0, (worker, "no worker is listening yet"))
    STDOUT.next_commands(commands)


async def _wait(engine: LocalEngine, handle: RunHandle[Any], worker: str) -> None:
    from holdfast.cli.runs.result import say_result
    from holdfast.cli.waiting import closing

    if not await _has_worker(engine):
        STDERR.say(f"no worker is listening on this store yet; start one: {worker}")
    if STDOUT.is_person:
        from holdfast.cli.runs.watch import live

        await live(engine, handle.id, is_brief=True)
    else:
        STDERR.say(handle.id)
    say_result(handle.id, await closing(engine, handle.id))


async def _has_worker(engine: LocalEngine) -> bool:
    from holdfast.cli.door import store_in

    return any(worker.is_listening for worker in await store_in(engine).workers())
