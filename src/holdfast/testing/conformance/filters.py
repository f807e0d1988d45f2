"""The filter language means the same on every store; `model.filters.matches` says what."""

from __future__ import annotations

from holdfast.model.filters import parse
from holdfast.model.labels import Labels, Value
from holdfast.model.writes import Filter, Page
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, ids


async def find(harness: Harness, text: str, ns: str = "default") -> str:
    """Return the ids of the runs that fit, sorted, as one text."""
    terms = parse(text, harness.store.now())
    return " ".join(sorted(ids(await harness.store.find(Filter(ns, terms=terms), Page(100)))))


async def fill(harness: Harness) -> None:
    """Start runs with many labels."""
    labels: dict[str, Labels] = {
        "ada": Labels(("vip", "new"), {"customer": "42", "amount": 12}),
        "bob": Labels(("vip",), {"customer": "7", "amount": 9.5, "is_paid": True}),
        "eve": Labels((), {"customer": "é", "amount": -3, "due": "2026-01-31"}),
        "sam": Labels(("it's",), {"amount": "12", "due": "2026-02-01"}),
    }
    for id, given in labels.items():
        workflow, queue = ("order", "default") if id < "e" else ("refund", "back office")
        await harness.start(id, labels=given, workflow=workflow, queue=queue)
    await harness.start("zoe")


async def check(harness: Harness, table: dict[str, str]) -> None:
    """Hold that each filter finds these runs."""
    for text, expected in table.items():
        assert await find(harness, text) == expected, text


async def test_tags(harness: Harness) -> None:
    await fill(harness)
    await check(
        harness,
        {
            "tag:vip": "ada bob",
            "tag:vip tag:new": "ada",
            'tag:new,"it\'s"': "ada sam",
            "-tag:vip": "eve sam zoe",
            "tag:vi": "",
            "tag:42": "",
        },
    )


async def test_attributes_compare_numbers_with_numbers_and_texts_with_texts(
    harness: Harness,
) -> None:
    await fill(harness)
    await check(
        harness,
        {
            "customer=42": "ada",
            "customer=42,7": "ada bob",
            'customer="42"': "ada",
            "amount=12": "ada sam",
            'amount="12"': "sam",
            "amount=12.0": "ada",
            "amount>9.5": "ada",
            "amount>=9.5": "ada bob",
            "amount<0": "eve",
            "amount<=12": "ada bob eve",
            "amount>-1000": "ada bob eve",
            "-amount>-1000": "sam zoe",
            "due>=2026-02-01": "sam",
            "due<2026-02-01": "eve",
            "is_paid=true": "bob",
            "is_paid=1": "",
            "customer=é": "eve",
            "nobody=1": "",
            "-nobody=1": "ada bob eve sam zoe",
        },
    )


async def test_rows(harness: Harness) -> None:
    await fill(harness)
    await harness.move("quarantine", "eve")
    await check(
        harness,
        {
            "": "ada bob eve sam zoe",
            "status:pending": "ada bob sam zoe",
            "status:quarantined,failed": "eve",
            "-status:pending": "eve",
            "workflow:order,w": "ada bob zoe",
            "queue:default": "ada bob zoe",
            'queue:other,"back office"': "eve sam",
            "-queue:default id:e": "eve",
            "queue:back": "",
            "id:a,zo": "ada zoe",
            "-id:a": "bob eve sam zoe",
            "reason:KILLS": "eve",
            'reason:"it kills"': "eve",
            "workflow:order tag:new -customer=7": "ada",
        },
    )


async def test_a_word_is_looked_for_everywhere(harness: Harness) -> None:
    await fill(harness)
    await check(
        harness,
        {
            "ADA": "ada",
            "refund": "eve sam",
            "vip": "ada bob",
            "2026": "eve sam",
            "12": "sam",
            "É": "",
            "é": "eve",
            "a,b": "ada bob sam",
            "-vip -refund": "zoe",
            "true": "bob",
            "%": "",
            "_": "",
        },
    )


async def test_times(harness: Harness) -> None:
    await harness.start("old")
    harness.clock.advance(3_600 * SECOND)
    await harness.start("young")
    harness.clock.advance(1_800 * SECOND)
    await check(
        harness,
        {
            "since:1h": "young",
            "since:2h": "old young",
            "since:2h before:1h": "old",
            "before:1h": "old",
            "-since:1h": "old",
            "since:30m": "young",
            "since:29m": "",
            "before:1970-01-01": "",
            "since:1970-01-01T00:00:00+01:00": "old young",
        },
    )


async def test_a_filter_sees_its_own_namespace_only(harness: Harness) -> None:
    await harness.start("mine", labels=Labels(("vip",), {"n": 1}))
    await harness.start("theirs", ns="other", labels=Labels(("vip",), {"n": 1}))
    await harness.start("mine", ns="other")
    for text in ("tag:vip", "n=1", "n>0", "vip", ""):
        assert await find(harness, text) == "mine"
    for text in ("tag:vip", "n=1", "n>0", "vip"):
        assert await find(harness, text, ns="other") == "theirs"


async def test_the_other_conditions_and_pages_hold_with_it(harness: Harness) -> None:
    for n in range(10):
        await harness.start(f"r{n}", labels=Labels(("even",) if n % 2 == 0 else ()))
    filter = Filter(ids=("r2", "r3", "r4", "r6"), terms=parse("tag:even", 0))
    runs = await harness.store.find(filter, Page(2))
    assert ids(runs) == ["r6", "r4"]
    page = Page(2, runs[-1].created_at, runs[-1].id)
    assert ids(await harness.store.find(filter, page)) == ["r2"]
    assert await harness.store.find(filter._replace(statuses=("failed",)), Page(2)) == []


async def test_numbers_are_compared_exactly(harness: Harness) -> None:
    values: dict[str, Value] = {"a": 2**53, "b": 2**53 + 1, "c": float(2**53), "d": 0.1, "e": 1e300}
    for id, value in values.items():
        await harness.start(id, labels=Labels((), {"n": value}))
    await check(
        harness,
        {
            f"n={2**53}": "a c",
            f"n={2**53 + 1}": "b",
            f"n>{2**53}": "b e",
            "n=0.1": "d",
            "n=1e300": "e",
            f"n>{10**30}": "e",
            "n<0.1000000000000000055": "",
        },
    )
