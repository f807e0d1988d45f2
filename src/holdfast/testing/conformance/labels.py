"""Tags and attributes: kept with their types, no part of a run's identity, gone with the run."""

from __future__ import annotations

from holdfast.model.commands import PruneRuns
from holdfast.model.labels import NO_LABELS, Labels
from holdfast.testing.conformance.harness import Harness

LABELS = Labels(
    ("a tag, with 'quotes'", "größe", "vip"),
    {"amount": 12, "big": 2**63 - 1, "customer": "42", "is_new": True, "is_old": False,
     "name": "true", "none": "", "one": 1.0, "share": 0.1},
)  # fmt: skip


async def kept(harness: Harness, run: str = "r", ns: str = "default") -> Labels:
    """Return what the store has for one run."""
    return (await harness.store.labels(ns, [run])).get(run, NO_LABELS)


async def test_labels_come_back_with_their_types(harness: Harness) -> None:
    await harness.start("r", labels=LABELS)
    found = await kept(harness)
    assert found == LABELS
    types = [type(value) for value in found.attributes.values()]
    assert types == [type(value) for value in LABELS.attributes.values()]


async def test_labels_of_many_runs_are_read_at_once(harness: Harness) -> None:
    for id in ("a", "b", "c"):
        await harness.start(id, labels=Labels((id,)))
    await harness.start("none")
    found = await harness.store.labels("default", ["a", "c", "none", "nobody"])
    assert found == {"a": Labels(("a",)), "c": Labels(("c",))}


async def test_a_second_start_with_other_labels_finds_the_run_as_it_is(harness: Harness) -> None:
    first = await harness.start("r", labels=Labels(("first",)))
    assert await harness.start("r", labels=Labels(("second",))) == first
    assert await kept(harness) == Labels(("first",))


async def test_a_run_born_claimed_has_its_labels(harness: Harness) -> None:
    await harness.held("r", labels=LABELS)
    assert await kept(harness) == LABELS


async def test_labels_stay_in_their_namespace(harness: Harness) -> None:
    await harness.start("r", labels=Labels(("mine",)))
    await harness.start("r", ns="other", labels=Labels(("theirs",)))
    assert await kept(harness) == Labels(("mine",))
    assert await kept(harness, ns="other") == Labels(("theirs",))


async def test_a_forgotten_run_leaves_no_label_to_the_next_of_its_id(harness: Harness) -> None:
    await harness.closed("r", labels=LABELS)
    await harness.send(PruneRuns("default", harness.clock.advance()))
    assert await kept(harness) == NO_LABELS
    await harness.start("r")
    assert await kept(harness) == NO_LABELS
