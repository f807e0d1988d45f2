"""`holdfast runs show --steps`: each step of a run once, with its attempts and what it gave."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from holdfast.cli import choosing
from holdfast.cli.documents import say_json, value_of
from holdfast.cli.door import Door, found
from holdfast.cli.drawing import LOOKS, header
from holdfast.cli.runs.show import detail, say_section, took
from holdfast.cli.statuses import DIM
from holdfast.cli.terminal import STDOUT, Cell, Column, clean, fields, table
from holdfast.cli.words import count, iso, span
from holdfast.model.travel import living

if TYPE_CHECKING:
    from holdfast.cli.timeline import Outcome
    from holdfast.engines.local import LocalEngine
    from holdfast.model.events import Event
    from holdfast.model.run import Loaded

FIELDS = ("run", "steps")
COLUMNS = (
    Column("after", right=True), Column("step"), Column("attempts", right=True),
    Column("took", right=True), Column("detail", cut=True),
)  # fmt: skip
OUTCOMES: dict[str, Outcome] = {
    "step.started": "open",
    "step.deferred": "waiting",
    "step.retrying": "retrying",
    "step.completed": "done",
    "step.failed": "failed",
}


class Step:
    """One call of a step: the last event of it, and how many attempts failed before."""

    last: Event
    retries = 0

    def take(self, event: Event) -> None:
        """Take in the next event of it."""
        self.last = event
        self.retries += event.kind == "step.retrying"

    @property
    def outcome(self) -> Outcome:
        """How it went, or how it stands."""
        return OUTCOMES[self.last.kind]

    @property
    def attempts(self) -> int:
        """How often it was tried. A result from the cache took no attempt."""
        is_over = self.last.kind != "step.retrying" and not self.last.is_cached
        return self.retries + is_over


def show_steps(door: Door, run: str, chosen: str | None, *, is_whole: bool) -> None:
    """Print the steps of a run that are recorded, in the order in which they began."""
    names = choosing.fields_of(chosen, FIELDS)

    async def read(engine: LocalEngine) -> tuple[Loaded, int]:
        return await engine.load(await found(engine, run)), engine.store.now()

    loaded, now = door.enter(read)
    steps = steps_of(living(loaded.events))
    if chosen:
        told = {"run": loaded.run.id, "steps": [_document(step) for step in steps]}
        say_json(choosing.only(told, names))
    elif STDOUT.is_person:
        STDOUT.say(header(loaded.run, loaded.events, now))
        _say(steps, loaded.run.created_at, is_whole=is_whole)
    else:
        for step in steps:
            line = (step.last.key, step.outcome, step.attempts, step.last.ran_for)
            STDOUT.say(fields(*line, detail(step.last, is_whole=is_whole)))


def steps_of(events: Sequence[Event]) -> list[Step]:
    """Return each call of a step that the history knows of; who continues as new begins anew."""
    steps: dict[tuple[int, str], Step] = {}
    part = 0
    for event in events:
        if event.kind == "run.continued":
            part = event.seq
        elif event.kind in OUTCOMES:
            steps.setdefault((part, event.key), Step()).take(event)
    return list(steps.values())


def _document(step: Step) -> dict[str, Any]:
    last = step.last
    return {
        "key": last.key, "outcome": step.outcome, "attempts": step.attempts,
        "generation": last.generation, "seq": last.seq, "at": iso(last.at),
        "took_us": last.ran_for, "cached": last.is_cached, "payload": value_of(last.payload),
    }  # fmt: skip


def _say(steps: Sequence[Step], begun: int, *, is_whole: bool) -> None:
    STDOUT.say()
    if not steps:
        STDOUT.say(STDOUT.dim("No step is recorded yet."))
    elif is_whole:
        for step in steps:
            after, name, _, lasted, _ = _cells(step, begun)
            tries = Cell(count(step.attempts, "attempt"), DIM)
            say_section([after, name, tries, lasted], step.last)
    else:
        for line in table(COLUMNS, [_cells(step, begun) for step in steps]):
            STDOUT.say(line)


def _cells(step: Step, begun: int) -> list[Cell]:
    look = LOOKS[step.outcome]
    return [
        Cell(span(step.last.at - begun), DIM),
        Cell(f"{look.icon} {clean(step.last.key)}", look.style),
        Cell(str(step.attempts), DIM),
        Cell(took(step.last)),
        Cell(detail(step.last), DIM),
    ]
