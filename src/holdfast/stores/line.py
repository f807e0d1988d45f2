"""Who is admitted to a managed queue next, in a store whose statements need not be waited for.

PostgreSQL walks round the keys in the same way, in a function of its own (`holdfast.admit`).
"""

from __future__ import annotations

from typing import Protocol

from holdfast.model.run import Run


class Line(Protocol):
    """The runs that stand in line at one queue and priority, inside the open transaction."""

    def key_after(self, key: str | None) -> str | None:
        """Return the next key that has a run in line; the first of all, if None is given."""
        ...

    def admit_one(self, key: str) -> Run | None:
        """Admit the first run of a key that the claimer knows, unless the key has all its slots."""
        ...


def admit(line: Line, last_key: str | None, most: int) -> tuple[list[Run], str | None]:
    """Admit at most so many, key after key; return them, and the key that was served last."""
    admitted: list[Run] = []
    at, idle = last_key, None
    while len(admitted) < most:
        key = line.key_after(at)
        if key is None:
            key = line.key_after(None)
        if key is None or key == idle:
            break  # nobody stands there, or nobody of a whole lap may begin
        at, run = key, line.admit_one(key)
        if run is not None:
            admitted.append(run)
            last_key, idle = key, None
        elif idle is None:
            idle = key
    return admitted, last_key
