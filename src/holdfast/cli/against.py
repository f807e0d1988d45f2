"""`holdfast check APP --against URL`: would the runs there go on with this code?"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from holdfast.cli.documents import say_json
from holdfast.cli.door import store_at
from holdfast.cli.statuses import CYAN, DIM, GREEN, RED, YELLOW
from holdfast.cli.terminal import STDERR, STDOUT, clean, fields
from holdfast.cli.words import count
from holdfast.errors import UnknownWorkflow

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.testing.compatibility import Compatibility, Group

TOLD_EVERY = 100
"""Runs between two words about how far it is."""


def check_against(
    app: App, url: str, workflows: tuple[str, ...], limit: int | None, *, strict: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Replay the open runs at `url`, say what would become of them, and return the exit code."""
    for name in workflows:
        if name not in app.workflows:
            raise UnknownWorkflow(name=name, known=tuple(sorted(app.workflows)))
    found = asyncio.run(_compared(app, url, workflows, limit))
    if as_json:
        say_json(_document(found))
    elif STDOUT.is_person:
        _say(found)
    else:
        _say_fields(found)
    return 1 if found.broken or (strict and found.unregistered) else 0


async def _compared(
    app: App, url: str, workflows: tuple[str, ...], limit: int | None
) -> Compatibility:
    from holdfast.testing.compatibility import compare

    is_watched = STDERR.stream.isatty()

    def tell(total: int) -> None:
        if is_watched and total % TOLD_EVERY == 0:
            STDERR.stream.write(f"\r{count(total, 'run')} replayed ")
            STDERR.stream.flush()

    async with store_at(url).reading() as store:
        found = await compare(app, store, workflows=workflows, limit=limit, tell=tell)
    if is_watched and found.total >= TOLD_EVERY:
        STDERR.stream.write("\r\x1b[K")
    return found


def _say(found: Compatibility) -> None:
    if not found.total:
        STDOUT.say(f"{STDOUT.style('✓', **GREEN)} no run is open")
        return
    if good := sum(found.compatible.values()):
        told = ", ".join(f"{clean(name)} {n:,}" for name, n in sorted(found.compatible.items()))
        goes = "goes" if good == 1 else "go"
        STDOUT.say(f"{STDOUT.style('✓', **GREEN)} {count(good, 'run')} {goes} on: {told}")
    _say_notes(found)
    for number, group in enumerate(found.broken):
        if number or found.compatible:
            STDOUT.say()
        _say_group(group)
    for group in found.unregistered:
        many = count(group.count, "run")
        STDOUT.say(f"{STDOUT.style('○', **DIM)} {many} of {clean(group.workflow)}, which this app "
                   f"does not have: another worker's")  # fmt: skip
    if found.is_cut:
        STDOUT.say(STDOUT.dim(f"only the newest {found.total:,} were replayed (--limit)"))


def _say_notes(found: Compatibility) -> None:
    if found.freed_count:
        many = count(found.freed_count, "blocked run")
        named = _named(found.freed, found.freed_count)
        STDOUT.say(f"{STDOUT.style('●', **CYAN)} {many} would go on now: {named}")
    for name, number in sorted(found.ending.items()):
        ends = "ends" if number == 1 else "end"
        STDOUT.say(f"{STDOUT.style('●', **CYAN)} {count(number, 'run')} of {clean(name)} {ends} at "
                   f"once with this code")  # fmt: skip
    for name, steps in sorted(found.reshaped.items()):
        STDOUT.say(f"{STDOUT.style('!', **YELLOW)} {clean(name)}: the parameters of "
                   f"{', '.join(sorted(steps))} have changed; recorded results are kept, their "
                   f"arguments could not be compared")  # fmt: skip


def _say_group(group: Group) -> None:
    verb = _verb(group)
    name = clean(f"{group.workflow} {group.version}".strip())
    head = f"{name}: {count(group.count, 'run')} {verb}"
    STDOUT.say(f"{STDOUT.style('✗', **RED)} {head}")
    broken = group.found
    rows: list[tuple[str, str]] = []
    if broken is not None and broken.recorded:
        at = f", at {broken.source}" if broken.source else ""
        rows = [("recorded", broken.recorded), ("the code", f"{broken.asked}{at}")]
    elif broken is not None:
        rows = [("because", broken.message)]
    rows.append(("runs", _named(group.runs, group.count)))
    if group.blocked:
        rows.append(("blocked", f"{group.blocked:,} already"))
    for label, text in rows:
        STDOUT.say(f"    {STDOUT.dim(f'{label:<8}')}  {clean(text)}")
    STDOUT.say()
    for line in _what_to_write(group):
        STDOUT.say(f"    {clean(line)}".rstrip())


def _verb(group: Group) -> str:
    s = "s" if group.count == 1 else ""
    if group.found is None:
        return f"need{s} a version that this app does not have"
    if group.found.word == "failed":
        return f"fail{s} at once, after event {_events(group)}"
    plural = "" if group.first == group.last else "s"
    return f"break{s} at event{plural} {_events(group)} ({group.found.word})"


def _events(group: Group) -> str:
    return f"{group.first}" if group.first == group.last else f"{group.first} to {group.last}"


def _what_to_write(group: Group) -> tuple[str, ...]:
    if group.found is not None:
        return group.found.write
    return (
        f'Keep the former body registered: @app.workflow(name="{group.workflow}", '
        f'version="{group.version}"),',
        "until the last of these runs has ended; or `holdfast runs terminate` them.",
    )


def _named(runs: list[str], total: int) -> str:
    more = f" and {total - len(runs):,} more" if total > len(runs) else ""
    return ", ".join(map(clean, runs)) + more


def _say_fields(found: Compatibility) -> None:
    for name, number in sorted(found.compatible.items()):
        STDOUT.say(fields("compatible", name, number))
    for group in [*found.broken, *found.unregistered]:
        broken = group.found
        told: tuple[Any, ...] = ()
        if broken is not None:
            told = (broken.word, _events(group), broken.message, " ".join(broken.write))
        STDOUT.say(
            fields(
                group.outcome, group.workflow, group.version, group.count, ",".join(group.runs),
                *told,
            )
        )  # fmt: skip


def _document(found: Compatibility) -> dict[str, Any]:
    return {
        "runs": found.total,
        "compatible": found.compatible,
        "blocked_that_go_on": found.freed_count,
        "ending_at_once": found.ending,
        "changed_parameters": {name: sorted(steps) for name, steps in found.reshaped.items()},
        "breaks": [_group_document(group) for group in found.broken],
        "unregistered": {group.workflow: group.count for group in found.unregistered},
        "is_cut": found.is_cut,
    }


def _group_document(group: Group) -> dict[str, Any]:
    broken = group.found._asdict() if group.found is not None else {}
    broken.pop("seq", None)
    return {
        "workflow": group.workflow,
        "version": group.version,
        "outcome": group.outcome,
        "count": group.count,
        "runs": group.runs,
        "blocked": group.blocked,
        "events": [group.first, group.last],
        **broken,
        "write": list(_what_to_write(group)),
    }
