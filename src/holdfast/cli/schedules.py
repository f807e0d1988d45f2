"""`holdfast schedules`: what the clock starts, and who stops it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from holdfast.cli import options
from holdfast.cli.documents import say_json
from holdfast.cli.door import Door
from holdfast.cli.proposing import typed
from holdfast.cli.statuses import CYAN, DIM
from holdfast.cli.terminal import STDERR, STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import ahead, count
from holdfast.errors import InvalidValue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.engines.local import LocalEngine
    from holdfast.schedules import Schedules, ScheduleState

COLUMNS = (
    Column("schedule"), Column("workflow"), Column("when", cut=True), Column("next"),
    Column("state", cut=True),
)  # fmt: skip
LATE = 60_000_000
"""Microseconds after which nobody seems to look at what is due."""

schedule_id = click.argument("id", metavar="SCHEDULE")
note = click.option("--note", default="", metavar="TEXT", help="Why; kept with the schedule.")


@click.group()
def command() -> None:
    """List, show and steer schedules."""


@command.command("list")
@click.option("--limit", type=click.IntRange(1, 1_000), default=100, show_default=True)
@click.option("--after", default="", metavar="SCHEDULE", help="Those after this one.")
@options.as_json
@options.with_door
def list_(door: Door, limit: int, after: str, as_json: bool) -> None:
    """List schedules, in the order of their ids."""

    async def read(engine: LocalEngine) -> tuple[list[ScheduleState], int]:
        from holdfast.schedules import Schedules

        return await Schedules(engine).list(limit=limit, after=after), engine.store.now()

    states, now = door.enter(read)
    if as_json:
        say_json({"schedules": [_document(each) for each in states]})
    elif not STDOUT.is_person:
        for each in states:
            STDOUT.say(fields(each.id, each.workflow, _when(each), _state(each, now)))
    elif not states:
        STDOUT.say(STDOUT.dim("There is no schedule."))
    else:
        rows = [
            [Cell(clean(each.id), CYAN), Cell(clean(each.workflow)), Cell(clean(_when(each))),
             Cell(_next(each, now)), Cell(clean(_state(each, now)), DIM)]
            for each in states
        ]  # fmt: skip
        for line in table(COLUMNS, rows):
            STDOUT.say(line)


@command.command("show")
@schedule_id
@options.as_json
@options.with_door
def show(door: Door, id: str, as_json: bool) -> None:
    """Show a schedule: its next five slots, what waits, and what became of the last ones."""

    async def read(engine: LocalEngine) -> tuple[ScheduleState, int]:
        from holdfast.schedules import Schedules

        return await Schedules(engine).get(id), engine.store.now()

    state, now = door.enter(read)
    if as_json:
        say_json(_document(state))
        return
    STDOUT.say(f"{STDOUT.style(clean(state.id), fg='cyan')}  {clean(state.workflow)}")
    STDOUT.say(f"{clean(_when(state))}; {_state(state, now)}")
    for name, listed in (
        ("next", [f"{at:%Y-%m-%d %H:%M:%S %Z}" for at in state.next]),
        ("running", [clean(run) for run in state.running]),
        ("waiting", [f"{at:%Y-%m-%d %H:%M:%S} UTC" for at in state.waiting[:5]]),
        ("recent", [f"{slot.at:%Y-%m-%d %H:%M:%S} UTC  {slot.outcome}" for slot in state.recent]),
    ):
        for line in listed:
            STDOUT.say(f"  {name:<8} {line}")


@command.command("pause")
@schedule_id
@note
@options.as_json
@options.with_door
def pause(door: Door, id: str, note: str, as_json: bool) -> None:
    """Stop the clock of a schedule."""
    _steer(door, lambda schedules: schedules.pause(id, note=note), "is paused", as_json)


@command.command("resume")
@schedule_id
@note
@options.as_json
@options.with_door
def resume(door: Door, id: str, note: str, as_json: bool) -> None:
    """Let the clock go on; what its catch-up allows is made up for."""
    _steer(door, lambda schedules: schedules.resume(id, note=note), "goes on", as_json)


@command.command("trigger")
@schedule_id
@click.option("--key", metavar="TEXT", help="The same key starts one run.")
@options.as_json
@options.with_door
def trigger(door: Door, id: str, key: str | None, as_json: bool) -> None:
    """Start a run now, whatever else runs."""

    async def act(engine: LocalEngine) -> str:
        from holdfast.schedules import Schedules

        return await Schedules(engine).trigger(id, key=key)

    run = door.enter(act)
    if as_json:
        say_json({"run": run})
        return
    STDOUT.say(run)
    if STDOUT.is_person:
        STDOUT.next_commands([(typed("runs watch", run), "")])


@command.command("backfill")
@schedule_id
@click.argument("start", metavar="FROM")
@click.argument("end", metavar="TO")
@options.as_json
@options.with_door
def backfill(door: Door, id: str, start: str, end: str, as_json: bool) -> None:
    """Start the slots between two times, such as 2026-10-01 and 2026-10-20T12:00, that have no run.

    Times without a zone are UTC.
    """
    first, last = _moment("FROM", start), _moment("TO", end)
    told = "catches up on these slots"
    _steer(door, lambda schedules: schedules.backfill(id, first, last), told, as_json)


@command.command("delete")
@schedule_id
@options.as_json
@options.with_door
def delete(door: Door, id: str, as_json: bool) -> None:
    """Forget a schedule. Its runs stay; what code declares comes back with the next worker."""

    async def act(engine: LocalEngine) -> None:
        from holdfast.schedules import Schedules

        await Schedules(engine).delete(id)

    door.enter(act)
    if as_json:
        say_json({"deleted": id})
    else:
        _told(id, "is deleted")


def _steer(
    door: Door,
    act: Callable[[Schedules], Awaitable[ScheduleState]],
    told: str,
    as_json: bool,
) -> None:
    async def inside(engine: LocalEngine) -> ScheduleState:
        from holdfast.schedules import Schedules

        return await act(Schedules(engine))

    state = door.enter(inside)
    if as_json:
        say_json(_document(state))
    else:
        waits = f"; {count(len(state.waiting), 'slot')} wait" if state.waiting else ""
        _told(state.id, f"{told}{waits}")


def _told(id: str, what: str) -> None:
    if STDOUT.is_person:
        STDOUT.say(f"{STDOUT.style('✓', fg='green')} {STDOUT.style(clean(id), fg='cyan')}  {what}")
    else:
        STDERR.say(f"{id} {what}")
        STDOUT.say(id)


def _moment(field: str, text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise InvalidValue(
            where="backfill", path=field, problem=f"{text!r:.60} is no time",
            hint="Write it as 2026-10-01, or 2026-10-01T03:00+02:00.",
        ) from error  # fmt: skip
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _when(state: ScheduleState) -> str:
    schedule = state.schedule
    if schedule.cron is not None:
        return f"{schedule.cron} {schedule.zone}"
    from holdfast.cli.words import span
    from holdfast.model.durations import microseconds

    return f"every {span(microseconds(schedule.every or 0, field='every'))}"


def _next(state: ScheduleState, now: int) -> str:
    return ahead(_since_1970(state.next[0]), now) if state.next else ""


def _state(state: ScheduleState, now: int) -> str:
    if state.paused:
        return f"paused: {state.note}" if state.note else "paused"
    if state.due_at is not None and _since_1970(state.due_at) < now - LATE:
        return f"overdue: no worker that knows {state.workflow} looks at it"
    waits = f", {count(len(state.waiting), 'slot')} wait" if state.waiting else ""
    if state.running:
        return f"{count(len(state.running), 'run')} open{waits}"
    return "idle" if state.next or state.waiting else "over"


def _since_1970(at: datetime) -> int:
    return round(at.timestamp() * 1_000_000)


def _document(state: ScheduleState) -> dict[str, Any]:
    import json

    due = state.due_at
    return {
        "id": state.id, "workflow": state.workflow,
        "schedule": json.loads(state.schedule.encoded()),
        "paused": state.paused, "note": state.note,
        "next": [at.isoformat() for at in state.next], "running": list(state.running),
        "waiting": [_utc(at) for at in state.waiting],
        "recent": [
            {"at": _utc(slot.at), "outcome": slot.outcome, "run": slot.run}
            for slot in state.recent
        ],
        "started": state.started, "declared": state.declared,
        "due_at": None if due is None else _utc(due),
    }  # fmt: skip


def _utc(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
