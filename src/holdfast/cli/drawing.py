"""A run drawn for a person: its status, a bar for each step, what failed, what to type next."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.cli.documents import compact
from holdfast.cli.failures import failure_in, say_failure
from holdfast.cli.proposing import typed
from holdfast.cli.statuses import BLUE, CYAN, DIM, GREEN, RED, STATUSES, YELLOW, Look
from holdfast.cli.terminal import STDOUT, clean, cut, padded, width_of
from holdfast.cli.timeline import Bar, bars_of, steps_in
from holdfast.cli.words import ago, ahead, count, span
from holdfast.model.annotations import Progress
from holdfast.model.events import Event
from holdfast.model.labels import Labels, compared
from holdfast.model.queues import DEFAULT_PRIORITY, DEFAULT_QUEUE
from holdfast.model.run import Run
from holdfast.model.status import CLOSED

LOOKS = {
    "done": Look("✓", GREEN),
    "failed": Look("✗", RED),
    "retrying": Look("↻", YELLOW),
    "open": Look("●", BLUE),
    "waiting": Look("‖", YELLOW),
}
LONGEST_LABEL = 34
WIDEST_BARS = 48


def header(run: Run, events: Sequence[Event], now: int) -> str:
    """Return the line above all: status, workflow, id, how long, how many steps."""
    look = STATUSES[run.status]
    facts = [span((run.closed_at or now) - run.created_at), count(steps_in(events), "step")]
    if any(event.kind == "run.continued" for event in events):
        facts.append(f"generation {run.generation}")
    elif run.generation > 1:
        facts.append(f"try {run.generation}")
    if run.version:
        facts.append(f"v{run.version}")
    status = STDOUT.style(f"{look.icon} {run.status}", **look.style)
    identity = f"{clean(run.workflow)} {STDOUT.style(run.id, fg='cyan')}"
    return f"{status}  {identity}   {STDOUT.dim(' · '.join(facts))}"


def place_of(run: Run) -> str:
    """Name the queue a run is on and its priority, unless both are the usual ones."""
    if (run.queue, run.priority) == (DEFAULT_QUEUE, DEFAULT_PRIORITY):
        return ""
    return f"{clean(run.queue)}, priority {run.priority}"


def told(labels: Labels) -> str:
    """Return tags and attributes on one line: `vip customer=42`."""
    attributes = (f"{name}={compared(value)}" for name, value in labels.attributes.items())
    return clean(" ".join([*labels.tags, *attributes]))


def said(beat: Progress, now: int) -> str:
    """Return what the last heartbeat of a step told, and when."""
    told = "alive" if beat.details is None else compact(beat.details)
    return clean(f"{beat.key}: {told} · {ago(beat.at, now)}")


def frame(
    run: Run,
    events: Sequence[Event],
    now: int,
    progress: Sequence[Progress] = (),
    *,
    is_compact: bool = False,
) -> list[str]:
    """Return the lines of a live view, no more than fit on the screen.

    A compact one has bars for what is under way, waits or failed; what is done is counted.
    """
    bars = bars_of(events)
    done = [bar for bar in bars if bar.outcome == "done"] if is_compact else []
    bars = [bar for bar in bars if bar not in done]
    if (present := _present(run, events, now)) is not None:
        bars.append(present)
    begun, ended = run.created_at, max(run.closed_at or now, run.created_at + 1)
    room = max(STDOUT.height - 6, 3)
    lines = [header(run, events, now)]
    if done:
        icon = STDOUT.style(LOOKS["done"].icon, **LOOKS["done"].style)
        lines.append(f"{icon} {sum(bar.calls for bar in done):,} done")
    if len(bars) > room:
        lines.append(STDOUT.dim(f"  … {count(len(bars) - room, 'earlier line')}"))
    label = min(max((width_of(bar.label) for bar in bars), default=0), LONGEST_LABEL)
    width = max(min(STDOUT.width - label - 26, WIDEST_BARS), 8)
    lines += [_drawn(bar, label, width, (begun, ended)) for bar in bars[-room:]]
    lines += [
        STDOUT.dim(f"  ↳ {cut(said(beat, now), STDOUT.width - 4)}") for beat in progress[:room]
    ]
    return lines


def _present(run: Run, events: Sequence[Event], now: int) -> Bar | None:
    """Return a bar for what an open run does now: it works, or it waits for something."""
    if run.status in CLOSED or run.status == "pending":
        return None
    if run.status == "running":
        return Bar("under way", "work", events[-1].at if events else run.created_at, now)
    name = clean(run.reason) or ("timer" if run.due_at else run.status)
    if run.due_at is not None:
        name += f" ({ahead(run.due_at, now)})"
    return Bar(name, "wait", run.updated_at, now, "waiting")


def _drawn(bar: Bar, label: int, width: int, window: tuple[int, int]) -> str:
    look = LOOKS[bar.outcome]
    icon = STDOUT.style(look.icon, **look.style)
    name = padded(cut(clean(bar.label), label), label)
    left, length = _place(bar, width, window)
    style = CYAN if bar.kind in ("timer", "signal", "cancel") else look.style
    line = " " * left + STDOUT.style("━" * length, **style) + " " * (width - left - length)
    took = f"{span(bar.ended - bar.begun):>8}" if bar.kind not in ("signal", "cancel") else ""
    tries = f"  {count(bar.retries, 'retry').replace('retrys', 'retries')}" if bar.retries else ""
    used = f"  {bar.cached} cached" if bar.cached else ""
    told = f"{STDOUT.style(took, **DIM)}{STDOUT.style(tries, **YELLOW)}{STDOUT.style(used, **DIM)}"
    return f"{icon} {name}  {line}  {told}"


def _place(bar: Bar, width: int, window: tuple[int, int]) -> tuple[int, int]:
    """Return where a bar begins and how long it is, in columns."""
    begun, ended = window
    scale = width / max(ended - begun, 1)
    left = min(max(int((bar.begun - begun) * scale), 0), width - 1)
    length = max(round((bar.ended - bar.begun) * scale), 1)
    return left, min(length, width - left)


def say_ending(run: Run, events: Sequence[Event]) -> None:
    """Print what went wrong, if anything did, and what to type next."""
    told = failure_in(events)
    if told is not None:
        STDOUT.say()
        say_failure(told)
    STDOUT.say()
    STDOUT.next_commands(next_commands(run))


def next_commands(run: Run) -> list[tuple[str, str]]:
    """Return what a person may want to type after seeing this run, by its status."""
    show = (typed("runs show", run.id), "every event")
    by_status: dict[str, list[tuple[str, str]]] = {
        "completed": [(typed("runs result", run.id), "what it returned"), show],
        "failed": [(typed("runs retry", run.id), "from the failed step"), show],
        "timed_out": [(typed("runs retry", run.id), "from where it stopped"), show],
        "compensation_failed": [(typed("runs retry", run.id), "go on with what is owed"), show],
        "cancelled": [show],
        "terminated": [show],
        "moved": [show],
        "paused": [(typed("runs resume", run.id), "let it go on")],
        "blocked": [
            (typed("runs retry", run.id), "once the code is mended"),
            (typed("runs terminate", run.id), "give it up"),
        ],
    }
    why = [(typed("runs why", run.id), "what it waits for")]
    return by_status.get(run.status, why)
