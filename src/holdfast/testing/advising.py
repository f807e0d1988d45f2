"""What to write so that a run goes on: worked out from what it recorded and what the code asks for.

The history says which answer came; the machine, stopped right there, says what the body waits for
instead. Whether that is new to the run, comes later in it, or has just changed its arguments tells
which change was made, and that tells what keeps it from the runs that are under way.
"""

from __future__ import annotations

import ast
import linecache
import textwrap
from collections.abc import Sequence
from types import FunctionType
from typing import Any, NamedTuple

from holdfast.errors import (
    BodyStuck,
    GuardViolation,
    HoldfastError,
    ReplayMismatch,
    Undecodable,
    UnsupportedVersion,
)
from holdfast.fronts.function.shape import steps_of
from holdfast.machine import Machine
from holdfast.machine.source import Place, place_of
from holdfast.model.events import Event

BESIDE = 'Or register the changed body beside the former one: @app.workflow(version="...").'
FORMER = "...  # as it was"
LONGEST = 6
"""Lines of a statement that are shown; more would hide what is to be written around them."""


class Seen(NamedTuple):
    """A replay that stopped: the event it stopped at, and the place where the body waits."""

    machine: Machine
    event: Event
    events: Sequence[Event]
    place: Place | None

    @property
    def name(self) -> str:
        """The name of the step or timer that was recorded."""
        return named(self.event.key)

    @property
    def waits(self) -> list[str]:
        """The keys of all that the body waits for, in order."""
        machine = self.machine
        keys = [*machine.asks, *(timer.key for timer in machine.loop.timers)]
        keys += [f"signal {name}" for name in machine.awaited_signals()]
        keys += machine.awaited_answers()
        return keys + [f"update {name}" for name in machine.awaited_updates()]


def advice(error: HoldfastError, machine: Machine, events: Sequence[Event]) -> tuple[str, ...]:
    """Return what to write, line by line, for a replay that stopped with `error`."""
    match error:
        case ReplayMismatch():
            event = next((each for each in events if each.seq == error.seq), None)
            return (error.hint,) if event is None else _of_event(event, machine, events)
        case GuardViolation():
            return (error.hint,)
        case Undecodable():
            return ("Restore the former annotation, or give the new field a default.",)
        case UnsupportedVersion():
            wide = f"hf.get_version({error.change!r}, {min(error.version, error.minimum)}, "
            wide += f"{max(error.version, error.maximum)})"
            return (f"Restore the code of version {error.version}, and write {wide}.",)
        case BodyStuck():
            return ("Wait for a step, hf.sleep or hf.wait_for instead.",)
        case _:
            return (error.hint,)


def _of_event(event: Event, machine: Machine, events: Sequence[Event]) -> tuple[str, ...]:
    if event.kind.startswith("update."):
        return _of_update(event)
    if event.kind == "question.answered":
        return _of_question(event, machine)
    seen = Seen(machine, event, events, place_of(machine.loop.tasks))
    return tuple(_of_note(seen) if event.kind == "note.patched" else _of_answer(seen))


def named(key: str) -> str:
    """Return the name in a key: `pack` of `ship[3]/pack#1`."""
    return key.rpartition("/")[2].partition("#")[0]


def _of_note(seen: Seen) -> list[str]:
    change = seen.event.key
    return [
        f"These runs took up {change!r}, and the code no longer asks about it where it did.",
        "Write there, until the last of them has ended:",
        "",
        f"    hf.deprecate_patch({change!r})",
    ]


def _of_update(event: Event) -> tuple[str, ...]:
    name = event.key.partition("/")[0]
    if event.kind == "update.accepted":
        told = f"These runs have accepted update {name!r}: register its handler where they had it,"
        return (f"{told} with hf.handle(...).", BESIDE)
    ended = event.kind.partition(".")[2]
    told = f"The handler of update {name!r} had {ended} here. Keep the former way for these runs,"
    return (f"{told} inside of it, with hf.patched(...).", BESIDE)


def _of_question(event: Event, machine: Machine) -> tuple[str, ...]:
    if event.key in machine.awaited_answers():
        told = f"{event.key} is asked in other words, or with other details, than those that"
        return (
            f"{told} were answered. Keep the former for these runs, with hf.patched(...).",
            BESIDE,
        )
    told = (
        f"These runs have an answer to {event.key}: ask for it where they did, or keep the former"
    )
    return (f"{told} way for them, with hf.patched(...).", BESIDE)


def _of_answer(seen: Seen) -> list[str]:
    known = {event.key for event in seen.events}
    fresh = [key for key in seen.waits if key not in known]
    if seen.event.key in seen.machine.asks:
        return _changed(seen)
    if seen.machine.ended is not None:
        return _removed(seen)
    if moved := [key for key in fresh if named(key) == seen.name]:
        return _moved(seen, moved[0])
    if fresh:
        is_called = seen.event.kind == "timer.fired" or seen.name in _called(seen)
        return _inserted(seen, fresh[0]) if is_called else _replaced(seen, fresh[0])
    if seen.waits:
        return _reordered(seen, seen.waits[0])
    return [f"Restore what led to {seen.event.key}.", BESIDE]


def _changed(seen: Seen) -> list[str]:
    head = f"The arguments of {seen.name} have changed, and its result belongs to the former ones."
    return [head, *_either(seen, f"arguments of {seen.name}"), "", BESIDE]


def _removed(seen: Seen) -> list[str]:
    return [
        f"The body ends without {seen.name}, which these runs have done. Keep it for them:",
        "",
        f'    if not hf.patched("without {seen.name}"):',
        f"        await {seen.name}({FORMER.partition(' ')[0]})  # as it was",
        "",
        BESIDE,
    ]


def _moved(seen: Seen, key: str) -> list[str]:
    return [
        f"{seen.name} was asked for as {seen.event.key}, and now as {key}: it moved to another",
        "task, or the coroutine of its task has another name. Put it back, or keep the former way",
        f"for these runs{_at(seen)}:",
        *_block(seen, f"{seen.name} elsewhere"),
        "",
        BESIDE,
    ]


def _inserted(seen: Seen, key: str) -> list[str]:
    new = named(key)
    return [
        f"These runs went past this place without {new}. Write{_at(seen)}:",
        *_block(seen, f"{new} before {seen.name}"),
        "",
        BESIDE,
    ]


def _replaced(seen: Seen, key: str) -> list[str]:
    new = named(key)
    return [
        f"The body no longer calls {seen.name}. If {new} is the same step under another name, keep",
        f'the recorded one: @app.step(name="{seen.name}"). Else keep the former call for these',
        f"runs{_at(seen)}:",
        *_either(seen, f"{new} instead of {seen.name}")[1:],
        "",
        BESIDE,
    ]


def _reordered(seen: Seen, key: str) -> list[str]:
    new = named(key)
    return [
        f"{new} and {seen.name} have changed places. Put them back, or keep the former order for",
        f"these runs{_at(seen)}:",
        *_either(seen, f"{new} before {seen.name}")[1:],
        "",
        BESIDE,
    ]


def _at(seen: Seen) -> str:
    return "" if seen.place is None else f" at {seen.place}"


def _block(seen: Seen, change: str) -> list[str]:
    """The new statement under the change; what it assigns must be there without it too."""
    statement = _statement(seen.place)
    lines = ["", f'    if hf.patched("{change}"):', *_indented(statement)]
    if _assigns(statement):
        lines += ["    else:", f"        {FORMER}"]
    return lines


def _either(seen: Seen, change: str) -> list[str]:
    """Both statements: the new one under the change, the former one for everybody else."""
    return [
        f"Keep the former call for these runs{_at(seen)}:",
        "",
        f'    if hf.patched("{change}"):',
        *_indented(_statement(seen.place)),
        "    else:",
        f"        {FORMER}",
    ]


def _indented(statement: str) -> list[str]:
    return textwrap.indent(statement, " " * 8).splitlines()


def _statement(place: Place | None) -> str:
    """Return the source of the statement in which the body waits, or dots if there is none."""
    found = None if place is None else _node(place)
    if place is None or found is None:
        return "..."
    source = "".join(linecache.getlines(place.code.co_filename))
    lines = source.splitlines()[found.lineno - 1 : found.end_lineno]
    if len(lines) > LONGEST:
        return "..."
    return textwrap.dedent("\n".join(lines))


def _node(place: Place) -> ast.stmt | None:
    source = "".join(linecache.getlines(place.code.co_filename))
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return None
    around = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and node.lineno <= place.line <= (node.end_lineno or 0)
    ]
    # The innermost; one that holds others is more than what is new.
    inner = max(around, key=lambda node: node.lineno, default=None)
    return None if inner is None or hasattr(inner, "body") else inner


def _assigns(statement: str) -> bool:
    try:
        body = ast.parse(statement).body
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Assign | ast.AnnAssign | ast.Return) for node in body)


def _called(seen: Seen) -> frozenset[str]:
    body: Any = seen.machine.body
    return steps_of(body) if isinstance(body, FunctionType) else frozenset()
