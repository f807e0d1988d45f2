"""Migrations are numbered as they are applied: the n-th file makes schema version n."""

from pathlib import Path

import pytest

import holdfast.stores as stores

FOLDER = Path(stores.__file__).parent


@pytest.mark.parametrize("store", ["sqlite", "postgres"])
def test_the_number_of_a_migration_is_the_version_it_makes(store: str) -> None:
    scripts = sorted((FOLDER / store / "migrations").glob("*.sql"))
    numbers = [int(path.name.partition("_")[0]) for path in scripts]
    assert numbers == list(range(1, len(numbers) + 1))
    assert numbers
