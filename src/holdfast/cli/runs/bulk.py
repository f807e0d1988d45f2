"""One verb for many runs: chosen by a filter, shown first, carried out in pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from holdfast.cli import completing
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door
from holdfast.cli.telling import Failed, Refused, must_be_asked
from holdfast.cli.terminal import STDERR, STDOUT, clean, fields
from holdfast.cli.words import count
from holdfast.errors import HoldfastError, StoreError

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine
    from holdfast.model.run import Run

Act = Callable[[Any], Awaitable[str]]
F = TypeVar("F", bound=Callable[..., Any])

PAGE = 500
"""How many runs are looked up at once."""
TOGETHER = 50
"""How many are steered at once: they share commits."""
LISTED = 10
"""How many runs are shown before, and how many refusals after."""


class Many(NamedTuple):
    """Which runs a verb is for, if not for one, and how."""

    filter: str | None = None
    dry_run: bool = False
    yes: bool = False
    limit: int | None = None
    as_json: bool = False


class Done(NamedTuple):
    """What came of it for each run."""

    outcomes: dict[str, str]
    refused: dict[str, HoldfastError]


def with_many(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a verb RUN or `--filter`, and what belongs to it, as `run` and `many`."""
    from functools import update_wrapper

    def command(*args: Any, **kwargs: Any) -> Any:
        many = Many(*(kwargs.pop(f"many_{name}") for name in Many._fields))
        return function(*args, many=many, **kwargs)

    command = update_wrapper(command, function)
    run = click.argument("run", required=False, metavar="[RUN]", shell_complete=completing.runs)
    for option in (
        click.option("--json", "many_as_json", is_flag=True, help="With --filter: print JSON."),
        click.option("--limit", "many_limit", type=click.IntRange(1), metavar="N",
                     help="With --filter: at most so many, the newest."),
        click.option("-y", "--yes", "many_yes", is_flag=True, help="With --filter: do not ask."),
        click.option("--dry-run", "many_dry_run", is_flag=True,
                     help="With --filter: only say which runs."),
        click.option("--filter", "many_filter", metavar="FILTER",
                     help="All runs like that, instead of one: 'status:failed since:1h'."),
    ):  # fmt: skip
        command = option(command)
    return run(command)


def carry_out(door: Door, verb: str, act: Act, many: Many) -> None:
    """Do it for every run that the filter finds, after asking."""
    runs = door.enter(lambda engine: _found(engine, many))
    if many.dry_run:
        _say_found(verb, runs, many)
        return
    if runs and not many.yes:
        _ask(verb, runs)
    done = door.enter(lambda engine: _do_all(engine, runs, act))
    _report(verb, runs, done, many)


async def _found(engine: LocalEngine, many: Many) -> list[Run]:
    from holdfast.model.filters import parse
    from holdfast.model.writes import Filter, Page

    text = (many.filter or "").strip()
    if not text:
        raise Refused("An empty filter means every run. Say which: --filter 'since:1h'.")
    wanted = Filter(engine.ns, terms=parse(text, engine.store.now()))
    found: list[Run] = []
    page = Page(PAGE)
    while runs := await engine.find(wanted, page):
        found += runs
        if many.limit is not None and len(found) >= many.limit:
            return found[: many.limit]
        page = page._replace(before_at=runs[-1].created_at, before_id=runs[-1].id)
    return found


def _say_found(verb: str, runs: Sequence[Run], many: Many) -> None:
    if many.as_json:
        rows = [{"id": run.id, "workflow": run.workflow, "status": run.status} for run in runs]
        say_json({"verb": verb, "dry_run": True, "matched": len(runs), "runs": rows})
    elif STDOUT.is_person:
        STDOUT.say(f"{verb} would be for {count(len(runs), 'run')}")
        _list(runs)
    else:
        for run in runs:
            STDOUT.say(fields(run.id, run.workflow, run.status))
        STDERR.say(f"{verb} would be for {count(len(runs), 'run')}")


def _list(runs: Sequence[Run]) -> None:
    for run in runs[:LISTED]:
        told = f"{clean(run.workflow)}, {run.status}"
        STDOUT.say(f"  {STDOUT.style(run.id, fg='cyan')}  {STDOUT.dim(told)}")
    if len(runs) > LISTED:
        STDOUT.say(f"  and {len(runs) - LISTED:,} more")


def _ask(verb: str, runs: Sequence[Run]) -> None:
    """Let a person see what it is about, and agree."""
    what = f"{verb} {count(len(runs), 'run')}"
    must_be_asked(what)
    _list(runs)
    click.confirm(f"{what}?", abort=True)


async def _do_all(engine: LocalEngine, runs: Sequence[Run], act: Act) -> Done:
    import asyncio

    from holdfast.client import RunHandle

    done = Done({}, {})

    async def one(run: Run) -> None:
        try:
            done.outcomes[run.id] = await act(RunHandle[Any](engine, run.id))
        except StoreError:
            raise
        except HoldfastError as error:
            done.refused[run.id] = error

    for begin in range(0, len(runs), TOGETHER):
        some = runs[begin : begin + TOGETHER]
        try:
            await asyncio.gather(*map(one, some))
        except StoreError:
            told = len(done.outcomes) + len(done.refused)
            STDERR.say(f"{told:,} of {count(len(runs), 'run')} done, and some perhaps; repeat it")
            raise
        if len(runs) > TOGETHER and STDERR.is_person:
            STDERR.say(STDERR.dim(f"{begin + len(some):,} of {len(runs):,}"))
    return done


def _report(verb: str, runs: Sequence[Run], done: Done, many: Many) -> None:
    if many.as_json:
        refused = [
            {"id": id, "code": error.code, "error": str(error)}
            for id, error in done.refused.items()
        ]
        say_json({
            "verb": verb, "dry_run": False, "matched": len(runs), "done": list(done.outcomes),
            "refused": refused,
        })  # fmt: skip
    elif STDOUT.is_person:
        for outcome, number in Counter(done.outcomes.values()).items():
            tick = STDOUT.style("✓", fg="green")
            STDOUT.say(f"{tick} {count(number, 'run')}: {outcome}")
        if not runs:
            STDOUT.say(STDOUT.dim("No runs are like that."))
    else:
        for id in done.outcomes:
            STDOUT.say(id)
    for id, error in list(done.refused.items())[:LISTED] if not many.as_json else ():
        STDERR.say(f"{id} was left as it is: {error}")
    if done.refused:
        told = f"{len(done.refused):,} of {count(len(runs), 'run')} were left as they are."
        raise Failed(told)
