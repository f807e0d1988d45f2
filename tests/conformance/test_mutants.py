"""A suite that cannot turn red proves nothing: each broken store fails at least one case."""

from collections.abc import Callable

import pytest

from holdfast.stores.memory import MemoryStore
from holdfast.testing.conformance import cases
from tests.conformance.mutants import MUTANTS


async def failures(make: Callable[[Callable[[], int]], MemoryStore]) -> list[str]:
    failed: list[str] = []
    for case in cases():
        try:
            await case.run(make)
        except Exception:
            failed.append(str(case))
    return failed


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
async def test_the_suite_finds_the_mistake(mutant: type[MemoryStore]) -> None:
    found = await failures(mutant)
    print(f"{mutant.__name__}: {len(found)} cases fail: {', '.join(found)}")
    assert found
    assert len(found) < len(cases()), "this store is not broken in one place but useless"


async def test_the_sound_store_fails_nothing() -> None:
    assert await failures(MemoryStore) == []
