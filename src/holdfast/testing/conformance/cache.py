"""Results that are kept for later calls: with the turn that records them, until they expire."""

from __future__ import annotations

from typing import Any

from holdfast.model.cache import CachedResult, CachedStep, CacheFilter, CacheKey
from holdfast.model.commands import ForgetResults, PruneRuns
from holdfast.model.events import CACHED
from holdfast.model.run import Run
from holdfast.model.writes import Free, Remember
from holdfast.testing.clock import SECOND
from holdfast.testing.conformance.harness import Harness, answer

KEY = CacheKey("fetch", "", "k")


def result(harness: Harness, run: Run, key: CacheKey = KEY, **fields: Any) -> CachedResult:
    """Return a result as a turn of `run` that is made now would keep it, for ten seconds."""
    now = harness.store.now()
    kept = CachedResult(run.ns, *key, b'"\x00\xff"', run.id, now, now + 10 * SECOND)
    return kept._replace(**fields)


async def keep(harness: Harness, run: Run, *results: CachedResult) -> str:
    """Commit a turn that records these results and keeps them."""
    answers = [answer(f"{kept.step}#{n}", kept.result) for n, kept in enumerate(results, 1)]
    sends = tuple(Remember(run.ns, kept) for kept in results)
    return await harness.commit(run, *answers, sends=sends)


async def recalled(
    harness: Harness, *wanted: CacheKey, ns: str = "default"
) -> dict[CacheKey, CachedResult]:
    """Return what the store has for these keys."""
    return dict(await harness.store.recall(ns, wanted or (KEY,)))


async def test_a_turn_keeps_a_result_with_its_record(harness: Harness) -> None:
    run = await harness.held("r")
    kept = result(harness, run)
    assert await recalled(harness) == {}
    assert await keep(harness, run, kept) == "applied"
    assert await recalled(harness) == {KEY: kept}
    assert (await harness.load()).events[-1].payload == kept.result


async def test_a_turn_that_is_refused_keeps_nothing(harness: Harness) -> None:
    former = await harness.held("r", worker="A")
    await harness.reap("A", known_dead=True)
    assert await keep(harness, former, result(harness, former)) == "lost"
    [present] = (await harness.claim("B")).runs
    assert await keep(harness, former, result(harness, former)) == "lost"
    moved = present._replace(seq=present.seq + 1)
    assert await keep(harness, moved, result(harness, moved)) == "moved"
    assert await recalled(harness) == {}
    assert await keep(harness, present, result(harness, present)) == "applied"
    assert list(await recalled(harness)) == [KEY]


async def test_a_result_expires_by_the_clock_of_the_store(harness: Harness) -> None:
    run = await harness.held("r")
    for_ever = CacheKey("fetch", "", "for ever")
    mortal, immortal = result(harness, run), result(harness, run, for_ever, expires_at=None)
    assert await keep(harness, run, mortal, immortal) == "applied"
    harness.clock.advance(10 * SECOND - 1)
    assert await recalled(harness, KEY, for_ever) == {KEY: mortal, for_ever: immortal}
    harness.clock.advance(1)
    assert await recalled(harness, KEY, for_ever) == {for_ever: immortal}
    harness.clock.advance(10**9 * SECOND)
    assert await recalled(harness, KEY, for_ever) == {for_ever: immortal}


async def test_the_result_that_is_recorded_last_stays(harness: Harness) -> None:
    first, second = await harness.held("r"), await harness.held("s")
    assert await keep(harness, first, result(harness, first, expires_at=None)) == "applied"
    harness.clock.advance()
    later = result(harness, second, result=b"2")
    assert await keep(harness, second, later) == "applied"
    assert await recalled(harness) == {KEY: later}


async def test_of_one_turn_the_last_result_under_a_key_stays(harness: Harness) -> None:
    run = await harness.held("r")
    one, two = result(harness, run), result(harness, run, result=b"2")
    assert await keep(harness, run, one, two) == "applied"
    assert await recalled(harness) == {KEY: two}


async def test_turns_that_come_together_keep_their_results(harness: Harness) -> None:
    runs = [await harness.held(f"r{n}") for n in range(6)]
    other = CacheKey("fetch", "", "other")
    turns = [
        harness.turn(
            run, answer("fetch#1", b"1"),
            sends=tuple(
                Remember(run.ns, result(harness, run, key, result=b"1"))
                for key in ((KEY, other) if n % 2 else (other, KEY))
            ),
        )
        for n, run in enumerate(runs)
    ]  # fmt: skip
    assert await harness.send_all(turns) == ["applied"] * 6
    assert set(await recalled(harness, KEY, other)) == {KEY, other}


async def test_keys_differ_by_step_version_and_namespace(harness: Harness) -> None:
    run = await harness.held("r")
    elsewhere = await harness.held("r", ns="other")
    keys = [KEY, CacheKey("fetch", "2", "k"), CacheKey("fetch2", "", "k"), CacheKey("k", "", "")]
    kept = [result(harness, run, key, result=b"%d" % n) for n, key in enumerate(keys)]
    assert await keep(harness, run, *kept) == "applied"
    assert await recalled(harness, *keys) == dict(zip(keys, kept, strict=True))
    assert await recalled(harness, *keys, ns="other") == {}
    assert await keep(harness, elsewhere, result(harness, elsewhere)) == "applied"
    assert list(await recalled(harness, *keys, ns="other")) == [KEY]


async def test_many_results_are_recalled_at_once(harness: Harness) -> None:
    run = await harness.held("r")
    keys = [CacheKey("fetch", "", f"käse {n}") for n in range(600)]
    results = [result(harness, run, key, result=b"%d" % n) for n, key in enumerate(keys)]
    assert await keep(harness, run, *results[::2]) == "applied"
    found = await recalled(harness, *keys)
    assert [found.get(key) for key in keys] == [
        None if n % 2 else each for n, each in enumerate(results)
    ]


async def test_a_result_is_kept_beside_other_sends(harness: Harness) -> None:
    run = await harness.held("r")
    kept = result(harness, run)
    sends = (Remember(run.ns, kept), Free(run.ns, run.id))
    turn = harness.turn(run, answer("fetch#1", kept.result), sends=sends)
    assert await harness.send(turn) == "applied"
    assert await recalled(harness) == {KEY: kept}


async def test_an_answer_from_the_cache_is_stored_as_such(harness: Harness) -> None:
    run = await harness.held("r")
    assert await harness.commit(run, answer("fetch#1", took=CACHED)) == "applied"
    last = (await harness.load()).events[-1]
    assert (last.took, last.is_cached, last.ran_for) == (CACHED, True, None)


async def test_a_step_is_forgotten_in_batches_with_all_its_versions(harness: Harness) -> None:
    run = await harness.held("r")
    keys = [CacheKey("fetch", str(n % 2), f"k{n}") for n in range(5)]
    other = CacheKey("other", "", "k1")
    results = [result(harness, run, key) for key in (*keys, other)]
    assert await keep(harness, run, *results) == "applied"
    command = ForgetResults("default", "fetch", limit=3)
    assert [await harness.send(command) for _ in range(3)] == [3, 2, 0]
    assert list(await recalled(harness, *keys, other)) == [other]
    assert await harness.send(ForgetResults("other", "other")) == 0
    assert await harness.send(ForgetResults("default", "nobody")) == 0
    assert list(await recalled(harness, other)) == [other]


async def test_one_key_of_a_step_is_forgotten(harness: Harness) -> None:
    run = await harness.held("r")
    keys = [KEY, CacheKey("fetch", "2", "k"), CacheKey("fetch", "", "l"), CacheKey("s", "", "k")]
    assert await keep(harness, run, *(result(harness, run, key) for key in keys)) == "applied"
    assert await harness.send(ForgetResults("default", "fetch", "k")) == 2
    assert set(await recalled(harness, *keys)) == {keys[2], keys[3]}


async def test_what_is_forgotten_first_is_the_same_everywhere(harness: Harness) -> None:
    run = await harness.held("r")
    now = harness.store.now()
    of_step = [CacheKey("fetch", version, key) for version in "21" for key in "ba"]
    expired = [CacheKey("other", "", key) for key in "cba"]
    results = [result(harness, run, key, expires_at=None) for key in of_step]
    for key, life in zip(expired, (2, 1, 1), strict=True):
        results.append(result(harness, run, key, expires_at=now + life * SECOND))
    assert await keep(harness, run, *results) == "applied"
    harness.clock.advance(3 * SECOND)
    for n in range(4):
        assert set(await recalled(harness, *of_step)) == set(sorted(of_step)[n:])
        assert await harness.send(ForgetResults("default", "fetch", limit=1)) == 1
    for left in ("cba", "cb", "c"):
        kept = [CacheFilter("default", "other", key) for key in "cba"]
        assert [each.key for each in kept if await harness.store.cached(each)] == list(left)
        assert await harness.send(ForgetResults("default", limit=1)) == 1


async def test_expired_results_are_forgotten_and_no_others(harness: Harness) -> None:
    run = await harness.held("r")
    now = harness.store.now()
    keys = [CacheKey("fetch", "", f"k{n}") for n in range(4)]
    times = (now + 1 * SECOND, now + 2 * SECOND, now + 3 * SECOND, None)
    results = [
        result(harness, run, key, expires_at=at) for key, at in zip(keys, times, strict=True)
    ]
    assert await keep(harness, run, *results) == "applied"
    assert await harness.send(ForgetResults("default")) == 0
    harness.clock.advance(2 * SECOND)
    assert await harness.send(ForgetResults("other")) == 0
    command = ForgetResults("default", limit=1)
    assert [await harness.send(command) for _ in range(3)] == [1, 1, 0]
    [counted] = await harness.store.cached(CacheFilter("default"))
    assert (counted.results, counted.expired) == (2, 0)
    assert set(await recalled(harness, *keys)) == {keys[2], keys[3]}


async def test_what_is_kept_is_counted_by_step_and_version(harness: Harness) -> None:
    run = await harness.held("r")
    now = harness.store.now()
    keys = [KEY, CacheKey("fetch", "", "l"), CacheKey("fetch", "2", "k"), CacheKey("a", "", "k")]
    results = [result(harness, run, key, result=b"1" * n) for n, key in enumerate(keys, 1)]
    results[1] = results[1]._replace(expires_at=None)
    assert await keep(harness, run, *results) == "applied"
    harness.clock.advance(10 * SECOND)
    counted = await harness.store.cached(CacheFilter("default"))
    assert all(each.bytes > 0 for each in counted)  # how many, depends on how they are kept
    assert [each._replace(bytes=0) for each in counted] == [
        CachedStep("a", "", 1, 1, 0, now, now),
        CachedStep("fetch", "", 2, 1, 0, now, now),
        CachedStep("fetch", "2", 1, 1, 0, now, now),
    ]
    [a] = await harness.store.cached(CacheFilter("default", "a"))
    assert a.step == "a"
    of_key = await harness.store.cached(CacheFilter("default", "fetch", "k"))
    assert [(each.version, each.results) for each in of_key] == [("", 1), ("2", 1)]
    assert await harness.store.cached(CacheFilter("other")) == []


async def test_a_result_stays_when_its_run_is_forgotten(harness: Harness) -> None:
    run = await harness.held("r")
    kept = result(harness, run, expires_at=None)
    assert await keep(harness, run, kept) == "applied"
    await harness.end(await harness.row())
    harness.clock.advance()
    assert await harness.send(PruneRuns("default", harness.store.now())) == 1
    assert await recalled(harness) == {KEY: kept}
