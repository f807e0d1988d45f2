"""The scenario of the sweep in which steps use results of former calls."""

import holdfast as hf
from holdfast.model.events import Event
from holdfast.model.settings import Settings
from holdfast.testing.crash_caller import Caller
from holdfast.testing.crash_world import Scenario, World, effect

app = hf.App("crash-cache")
LASTING = 180.0
"""Seconds: longer than any fault holds a run up."""
DRAWN: list[int] = []


def draw(n: int) -> str:
    """Return something that was never returned before."""
    DRAWN.append(n)
    drawn = f"{n}: {len(DRAWN)}"
    effect(drawn)
    return drawn


@app.step(cache=hf.Cache(LASTING))
async def fetch(n: int) -> str:
    return draw(n)


@app.step(cache=hf.Cache(LASTING, key=lambda n: f"item {n}"), queue="gpu")
async def render(n: int) -> str:
    return draw(n)


@app.workflow
async def looking(seconds: float) -> list[str]:
    await hf.sleep(seconds)
    return [await fetch(1), await render(1)]


async def run_again(caller: Caller) -> None:
    for run in ("first", "second"):
        await caller.start(looking.bind(0), run)
        assert (await caller.result(run))[0] == "completed"
    await caller.look_at_cache()


async def run_late(caller: Caller) -> None:
    for run, seconds in (("first", 0), ("late", LASTING + 1)):
        await caller.start(looking.bind(seconds), run)
        assert (await caller.result(run))[0] == "completed"


def answers_of(world: World, run: str) -> dict[str, Event]:
    """Return the answers that a run counts, by their keys."""
    events = world.dump.events["default", run]
    counting = [event for event in events if event.superseded_by is None]
    return {event.key: event for event in counting if event.kind == "step.completed"}


def results_are_used(world: World) -> list[str]:
    """The second run has what the first recorded, and runs no step."""
    first, second = answers_of(world, "first"), answers_of(world, "second")
    other = [
        f"{key}: the second run did not use what the first had recorded"
        for key, event in first.items()
        if event.is_cached or not second[key].is_cached or event.payload != second[key].payload
    ]
    again = [each for each in world.effects if each.run == "second"]
    return other + [f"{each.key} ran in the second run" for each in again]


def expired_results_are_not(world: World) -> list[str]:
    """The late run has its own."""
    first, late = answers_of(world, "first"), answers_of(world, "late")
    return [
        f"{key}: the late run used what was expired"
        for key, event in late.items()
        if event.is_cached or event.payload == first[key].payload
    ]


LOOSE = frozenset({"fetch", "render"})
CACHING = (
    Scenario(
        "step-cached", app, run_again, workers=1, loose=LOOSE, either=True, prepare=DRAWN.clear,
        check=results_are_used,
    ),
    Scenario(
        "step-cached-late", app, run_late, loose=LOOSE, either=True, only_commits=True,
        is_watched=True, flavours=(), settings=Settings(poll=60.0, paranoid=True),
        prepare=DRAWN.clear, check=expired_results_are_not,
    ),
)  # fmt: skip
