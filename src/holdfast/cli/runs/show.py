"""`holdfast runs show`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import click

from holdfast.cli import choosing, options
from holdfast.cli.code import code_of
from holdfast.cli.documents import (
    RUN_FIELDS,
    compact,
    event_document,
    fields_of,
    progress_document,
    run_document,
    say_json,
    value_of,
)
from holdfast.cli.door import Door, found, store_in
from holdfast.cli.drawing import header, next_commands, place_of, said, told
from holdfast.cli.failures import failure_in, owed_in, say_failure, say_traceback
from holdfast.cli.runs import family
from holdfast.cli.statuses import DIM, event_look
from holdfast.cli.terminal import STDOUT, Cell, Column, clean, cut, fields, table
from holdfast.cli.timeline import signal_in
from holdfast.cli.words import ago, ahead, clock, count, iso, moment, span
from holdfast.model.events import CLASS_OF, Event, EventKind, since_start
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.model.run import Loaded
from holdfast.model.travel import living

if TYPE_CHECKING:
    from holdfast.engines.local import LocalEngine

View = Literal["steps", "state", "graph"]
MORE_FIELDS = ("parent", "children", "progress", "owed", "history")
COLUMNS = (
    Column("#", right=True),
    Column("after", right=True),
    Column("event"),
    Column("took", right=True),
    Column("detail", cut=True),
)


@click.command("show", cls=choosing.JsonCommand)
@options.run_id
@click.option("--all", "everything", is_flag=True, help="Also events that no longer count.")
@click.option("--steps", "view", flag_value="steps",
              help="Each step once, with its attempts and what it gave.")  # fmt: skip
@click.option("--state", "view", flag_value="state", help="Of a graph: its state, and no events.")
@click.option("--graph", "view", flag_value="graph",
              help="Of a graph: its picture, with the way of the run.")  # fmt: skip
@click.option("--at", metavar="PLACE",
              help="The state after NODE or NODE:ITERATION, or at an event.")  # fmt: skip
@click.option("--detail", "is_whole", is_flag=True,
              help="Whole values, in a section for each event, step or field.")  # fmt: skip
@click.option("--app", envvar=options.APP, type=options.AppName(), metavar="APP",
              help="With --state or --graph: the app (or HOLDFAST_APP).")  # fmt: skip
@choosing.option
@options.with_door
def command(  # noqa: PLR0913, PLR0917 - the options of a command, each by its name
    door: Door, run: str, everything: bool, view: View | None, at: str | None, is_whole: bool,
    app: str | None, chosen: str | None,
) -> None:  # fmt: skip
    """Show a run and every event of it that counts; with --all, those too that were superseded.

    With --steps, show its steps. With --state, show the state of a run of a graph: the last, or
    that --at a node. With --graph, draw the graph, and what the run visited of it.
    """
    wanted = "state" if view is None and at is not None else view
    if (everything and wanted) or (at is not None and wanted != "state"):
        raise click.UsageError("--all is for events, and --at for --state.")
    if wanted == "state":
        from holdfast.cli.runs.state import show_state

        show_state(door, run, app, at, chosen, is_whole=is_whole)
    elif wanted == "graph":
        from holdfast.cli.graph import show_way

        show_way(door, run, app, as_json=chosen is not None)
    elif wanted == "steps":
        from holdfast.cli.runs.steps import show_steps

        show_steps(door, run, chosen, is_whole=is_whole)
    else:
        _show_events(door, run, chosen, everything=everything, is_whole=is_whole)


def _show_events(
    door: Door, run: str, chosen: str | None, *, everything: bool, is_whole: bool
) -> None:
    names = choosing.fields_of(chosen, (*RUN_FIELDS, *MORE_FIELDS))

    async def read(engine: LocalEngine) -> tuple[Loaded, Labels, int, str]:
        loaded = await engine.load(await found(engine, run))
        labels = await engine.labels([loaded.run.id])
        row = loaded.run
        if everything:
            loaded = loaded._replace(events=(await engine.export(row.id)).events)
        code = code_of(loaded, await store_in(engine).definitions(row.ns, row.workflow))
        return loaded, labels.get(loaded.run.id, NO_LABELS), engine.store.now(), code

    loaded, labels, now, code = door.enter(read)
    if chosen:
        history = [event_document(event) for event in loaded.events]
        progress = [progress_document(beat) for beat in loaded.progress]
        counting = living(loaded.events)
        owed = [each._asdict() for each in owed_in(counting)]
        kin, more = family.documents_of(counting), {"owed": owed, "history": history}
        told = {**run_document(loaded.run, labels), **kin, "progress": progress, **more}
        say_json(choosing.only(told, names))
    elif STDOUT.is_person:
        _say(loaded, labels, now, code, is_whole=is_whole)
    else:
        say_lines(loaded.events, everything=everything, is_whole=is_whole)


def say_lines(events: Sequence[Event], *, everything: bool = False, is_whole: bool = False) -> None:
    """Print events for programs: number, time, kind, key, microseconds, detail.

    Of `everything` also by which event each was superseded.
    """
    for event in events:
        line = (event.seq, iso(event.at), event.kind, event.key, event.ran_for)
        more = [event.superseded_by] if everything else []
        STDOUT.say(fields(*line, detail(event, is_whole=is_whole), *more))


def say_section(cells: Sequence[Cell], event: Event) -> None:
    """Print cells on a line, and the whole of an event's value below it."""
    told = (STDOUT.style(cell.text, **cell.style) for cell in cells if cell.text)
    STDOUT.say("  ".join(told))
    if event.payload is not None:
        say_value(value_of(event.payload))


def say_value(value: object) -> None:
    """Print the whole of a value, indented."""
    for line in json.dumps(value, ensure_ascii=False, indent=2).splitlines():
        STDOUT.say(f"    {clean(line)}")


def _say(loaded: Loaded, labels: Labels, now: int, code: str, *, is_whole: bool) -> None:
    run, events, counting = loaded.run, loaded.events, living(loaded.events)
    begun = min((event.at for event in events[:1]), default=run.created_at)
    STDOUT.say(header(run, counting, now))
    told_too = (("queue", place_of(run)), ("code", code))
    facts = [
        *_facts(loaded._replace(events=counting), now),
        *(fact for fact in told_too if fact[1]),
    ]
    if labels != NO_LABELS:
        facts.append(("tags", told(labels)))
    for name, text in facts:
        STDOUT.say(f"  {STDOUT.dim(f'{name:<8}')}  {cut(text, STDOUT.width - 12)}")
    STDOUT.say()
    if is_whole:
        for event in events:
            say_section(_cells(event, begun)[:-1], event)
    else:
        for line in table(COLUMNS, [_cells(event, begun) for event in events]):
            STDOUT.say(line)
    failed = failure_in(counting)
    if failed is not None:
        STDOUT.say()
        say_failure(failed)
        say_traceback(failed.failure)
    STDOUT.say()
    STDOUT.next_commands([each for each in next_commands(run) if " show " not in each[0]])


def _facts(loaded: Loaded, now: int) -> list[tuple[str, str]]:
    run, events = loaded.run, loaded.events
    facts = [("started", f"{moment(run.created_at)}, {ago(run.created_at, now)}")]
    if run.closed_at is not None:
        facts.append(("ended", f"{moment(run.closed_at)}, {ago(run.closed_at, now)}"))
    if run.due_at is not None:
        facts.append(("due", f"{moment(run.due_at)}, {ahead(run.due_at, now)}"))
    facts += [("forked", _forked(event)) for event in events if event.kind == "run.forked"][-1:]
    if run.reason:
        facts.append(("reason", clean(run.reason)))
    if run.owner is not None:
        facts.append(("worker", run.owner))
    if loaded.mail:
        names = ", ".join(clean(message.name or message.kind) for message in loaded.mail)
        facts.append(("unread", f"{count(len(loaded.mail), 'message')}: {names}"))
    facts += family.facts_of(events)
    facts += [("progress", said(beat, now)) for beat in loaded.progress]
    facts += [("owed", clean(str(each))) for each in owed_in(events)]
    if events and CLASS_OF[(start := since_start(events)[0]).kind] == "start":
        facts.append(("input", clean(compact(start.payload))))
    if events and events[-1].kind == "run.completed":
        facts.append(("result", clean(compact(events[-1].payload))))
    return facts


def took(event: Event) -> str:
    """Say how long an attempt ran, or that there was none because of the cache."""
    if event.is_cached:
        return "cached"
    return "" if event.took is None else span(event.took)


def _cells(event: Event, begun: int) -> list[Cell]:
    look, gone = event_look(family.looks_like(event)), event.superseded_by
    return [
        Cell(str(event.seq), DIM),
        Cell(span(event.at - begun), DIM),
        Cell(f"{look.icon} {what(event)}", look.style if gone is None else DIM),
        Cell(took(event)),
        Cell(detail(event) if gone is None else f"superseded by {gone} · {detail(event)}", DIM),
    ]


def what(event: Event) -> str:
    """Say what an event is."""
    if event.kind in WORDS:
        return WORDS[event.kind](event)
    return clean(event.key) or event.kind.partition(".")[2].replace("_", " ")


def _attempt(event: Event) -> str:
    return f"{clean(event.key)} attempt {fields_of(event.payload).get('attempt', '?')}"


def _reopening(event: Event) -> str:
    return f"reopened for {clean(event.key)}" if event.key else "reopened"


def _update(event: Event) -> str:
    return f"update {clean(signal_in(event))} {event.kind.partition('.')[2]}"


def _way(event: Event) -> str:
    """Say which way a graph went, or that a factory drew it."""
    value = fields_of(event.payload)
    if "from" not in value:
        return "graph drawn"
    to = ", ".join(value["fork"]) if "fork" in value else value.get("to")
    return clean(f"{value.get('from')} -> {to}")


def _why_that_way(event: Event) -> str:
    value = fields_of(event.payload)
    if "fork" in value:
        return f"side by side, to {value.get('join')}"
    told = [str(value["by"])] if "by" in value else []
    told += [f"not {each.get('to')}: {each.get('by')}" for each in value.get("rejected", ())]
    return " · ".join(told)


WORDS: Mapping[str, Callable[[Event], str]] = {
    "run.started": lambda _: "started",
    "child.started": family.what,
    "child.closed": family.what,
    "step.retrying": _attempt,
    "signal.received": lambda event: f"signal {clean(signal_in(event))}",
    "update.accepted": _update,
    "update.completed": _update,
    "update.failed": _update,
    "cancel.requested": lambda _: "cancel requested",
    "note.patched": lambda event: f"change {clean(event.key)}",
    "note.decided": _way,
    "note.checkpoint": lambda event: f"checkpoint {clean(event.key)}",
    "deadline.passed": lambda _: "deadline passed",
    "step.deferred": lambda event: f"{clean(event.key)} is completed later",
    "answer.unused": lambda event: f"answer to {clean(event.key)}, not used",
    "run.reopened": _reopening,
    "run.continued": lambda event: f"continued as generation {event.generation}",
}


def detail(event: Event, *, is_whole: bool = False) -> str:
    """Say the one thing about an event a person most wants to know, or the whole of its value."""
    if is_whole:
        return clean(compact(event.payload)) if event.payload is not None else ""
    special = DETAILS.get(event.kind)
    if special is not None:
        return clean(special(event))
    value = fields_of(event.payload)
    if "message" in value and "type" in value:
        tries = value.get("attempts", 1)
        often = f" ({count(tries, 'attempt')})" if tries > 1 else ""
        return clean(f"{value['type']}: {value['message']}{often}")
    if set(value) == {"reason"}:
        return clean(str(value["reason"]))
    return clean(compact(event.payload)) if event.payload is not None else ""


def _retrying(event: Event) -> str:
    value = fields_of(event.payload)
    again = span(int(value.get("retry_at", event.at)) - event.at)
    return f"{value.get('type')}: {value.get('message')} · again after {again}"


def _forked(event: Event) -> str:
    """Say of which run a fork is, from where, and what is edited in it."""
    value = fields_of(event.payload)
    told = f"from {value.get('origin')}"
    told += f" at {value['at']}" if "at" in value else " at its start, with another input"
    edited = value.get("results", ())
    told += f", with another result of {', '.join(edited)}" if edited else ""
    after = [each["after"] for each in value.get("states", ())]
    told += f", with another state after {', '.join(after)}" if after else ""
    return clean(f"{told} · {value['reason']}" if "reason" in value else told)


def _reopened(event: Event) -> str:
    """Say from where a run goes on again, and why."""
    value = fields_of(event.payload)
    parts = [f"from {value['from']}"] if "from" in value else []
    parts += [f"with the keys of generation {value['keys']}"] if "keys" in value else []
    return " · ".join([*parts, str(value.get("reason", ""))]).removesuffix(" · ")


def _asked(event: Event) -> str:
    value = fields_of(event.payload)
    told = [str(value.get("question")), ", ".join(value.get("to", ()))]
    return " · ".join(told).removesuffix(" · ")


def _answered(event: Event) -> str:
    value = fields_of(event.payload)
    told = value["why"] if "why" in value else json.dumps(value.get("value"), ensure_ascii=False)
    return f"{told} · {value['by']}" if value.get("by") else str(told)


def _until(event: Event) -> str:
    due = fields_of(event.payload).get("due")
    return "" if due is None else f"until {clock(int(due))}"


DETAILS: Mapping[EventKind, Callable[[Event], str]] = {
    "timer.fired": lambda event: f"was due at {clock(int(event.payload or 0))}",
    "note.patched": lambda event: f"version {fields_of(event.payload).get('version', 1)}",
    "note.decided": _why_that_way,
    "note.checkpoint": lambda _: "",
    "deadline.passed": lambda event: f"it waited for {fields_of(event.payload).get('waited_for')}",
    "step.retrying": _retrying,
    "child.started": family.detail,
    "child.closed": family.detail,
    "run.reopened": _reopened,
    "step.deferred": _until,
    "question.asked": _asked,
    "question.answered": _answered,
    "answer.unused": _answered,
    "run.forked": _forked,
}
