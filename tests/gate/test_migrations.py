"""Migrations are numbered as they are applied: the n-th file makes schema version n."""

from pathlib import Path

import holdfast.stores.sqlite as sqlite

FOLDER = Path(sqlite.__file__).parent / "migrations"


def test_the_number_of_a_migration_is_the_version_it_makes() -> None:
    numbers = [int(path.name.partition("_")[0]) for path in sorted(FOLDER.glob("*.sql"))]
    assert numbers == list(range(1, len(numbers) + 1))
