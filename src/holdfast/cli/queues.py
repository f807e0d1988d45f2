"""`holdfast queues`: what queues with limits hold, pause them, let them go on, change them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door
from holdfast.cli.proposing import typed
from holdfast.cli.statuses import CYAN, DIM, GREEN, YELLOW
from holdfast.cli.terminal import STDERR, STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import iso
from holdfast.model.filters import quoted

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.model.limits import QueueState, Rate

COLUMNS = (
    Column("queue"), Column("state"), Column("held", right=True), Column("in line", right=True),
    Column("limits", cut=True),
)  # fmt: skip
named = click.argument("name", metavar="QUEUE")


@click.group()
def command() -> None:
    """List queues with limits, pause and change them.

    A queue without limits needs no word here: its name at a start is enough.
    """


@command.command("list")
@options.as_json
@options.with_door
def listed(door: Door, as_json: bool) -> None:
    """List the queues that have limits or are paused, with what holds slots and what waits."""
    states = door.enter(_all)
    if as_json:
        say_json({"queues": [_document(state) for state in states]})
    elif not STDOUT.is_person:
        for state in states:
            STDOUT.say(fields(*_document(state).values()))
    elif not states:
        STDOUT.say(STDOUT.dim("No queue has limits. Give one some: holdfast queues set QUEUE"))
    else:
        for line in table(COLUMNS, [_row(state) for state in states]):
            STDOUT.say(line)


@command.command("show")
@named
@options.as_json
@options.with_door
def show(door: Door, name: str, as_json: bool) -> None:
    """Show one queue: what it allows, who holds its slots, how many wait."""

    async def look(engine: LocalEngine) -> QueueState:
        from holdfast.queues import Queues

        return await Queues(engine).get(name)

    state = door.enter(look)
    if as_json or not STDOUT.is_person:
        say_json(_document(state))
        return
    for line in table(COLUMNS, [_row(state)]):
        STDOUT.say(line)
    term = f"queue:{name if name.isalnum() else quoted(name)}"
    STDOUT.next_commands([(typed("runs list", term, "status:pending"), "who waits")])


@command.command("pause")
@named
@options.with_door
def pause(door: Door, name: str) -> None:
    """Let no more runs and jobs of a queue begin. Those that have begun go on."""
    _steer(door, name, paused=True)


@command.command("resume")
@named
@options.with_door
def resume(door: Door, name: str) -> None:
    """Let runs and jobs of a queue begin again."""
    _steer(door, name, paused=False)


@command.command("set")
@named
@click.option("--concurrency", type=int, metavar="N", help="How many runs and jobs at once.")
@click.option("--key-concurrency", type=int, metavar="N", help="How many at once of one key.")
@click.option("--worker-concurrency", type=int, metavar="N", help="How many at once on one worker.")
@click.option("--rate", metavar="N/TIME", help="How many may begin in a time: 100/1m, 5/1s.")
@options.with_door
def change(door: Door, name: str, rate: str | None, **limits: int | None) -> None:
    """Give a queue limits in the place of those it had; what is not given is no limit.

    What the app says by app.queue(...) counts again when it is opened next.
    """
    given: dict[str, Any] = {**limits, "rate": None if rate is None else _rate(rate)}

    async def act(engine: LocalEngine) -> bool:
        from holdfast.queues import Queues

        return await Queues(engine).set(name, **given)

    _say(name, "has new limits", is_news=door.enter(act))


def _steer(door: Door, name: str, *, paused: bool) -> None:
    async def act(engine: LocalEngine) -> bool:
        from holdfast.queues import Queues

        queues = Queues(engine)
        return await (queues.pause(name) if paused else queues.resume(name))

    _say(name, "is paused" if paused else "goes on", is_news=door.enter(act))


def _say(name: str, told: str, *, is_news: bool) -> None:
    STDERR.say(f"queue {clean(name)} {told if is_news else 'was so already'}")
    STDOUT.say(clean(name))


def _rate(text: str) -> Rate:
    from holdfast.cli.words import SECOND, length
    from holdfast.errors import InvalidValue
    from holdfast.model.limits import Rate

    count, _, per = text.partition("/")
    if not count.isdigit() or not per:
        problem = f"{text!r:.60} is no rate"
        hint = "Write how many in which time: 100/1m, 5/1s."
        raise InvalidValue(where="queues set", path="--rate", problem=problem, hint=hint)
    return Rate(int(count), per=length(per, field="--rate") / SECOND)


async def _all(engine: LocalEngine) -> tuple[QueueState, ...]:
    from holdfast.queues import Queues

    return await Queues(engine).list()


def _document(state: QueueState) -> dict[str, Any]:
    queue = state.queue
    return {
        "queue": queue.name,
        "paused": queue.paused,
        "held": state.held,
        "in_line": state.waiting,
        "concurrency": queue.concurrency,
        "key_concurrency": queue.key_concurrency,
        "worker_concurrency": queue.worker_concurrency,
        "rate_count": queue.rate_count,
        "rate_seconds": None if queue.rate_per is None else queue.rate_per / 1e6,
        "next_at": iso(state.next_at),
    }


def _row(state: QueueState) -> list[Cell]:
    queue = state.queue
    held = str(state.held) if queue.concurrency is None else f"{state.held}/{queue.concurrency}"
    return [
        Cell(queue.name, CYAN),
        Cell("‖ paused", YELLOW) if queue.paused else Cell("✓ open", GREEN),
        Cell(held),
        Cell(str(state.waiting)),
        Cell(queue.limits.told or "none", DIM),
    ]
