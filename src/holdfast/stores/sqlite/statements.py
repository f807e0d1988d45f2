"""The SQL of this store, read from its `.sql` files by name."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace

from holdfast.stores.queries import migrations_of, queries_of

PACKAGE = "holdfast.stores.sqlite"


@cache
def queries() -> SimpleNamespace:
    """Return every statement as an attribute of its name."""
    return SimpleNamespace(**queries_of(PACKAGE))


def migrations() -> tuple[str, ...]:
    """Return the migration scripts, in order; the n-th makes schema version n."""
    return migrations_of(PACKAGE)


migrations()  # read now, with the code: opening a file should not wait for it
