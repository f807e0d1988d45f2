"""Who is admitted to a managed queue next, in a store whose statements need not be waited for.

PostgreSQL walks round the keys in the same way, in functions of its own (`holdfast.admit`,
`holdfast.admit_jobs`).
"""

from __future__ import annotations

from typing import Protocol, TypeVar

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Line(Protocol[T_co]):
    """What stands in line at one queue and priority, runs or jobs, inside the open transaction."""

    def key_after(self, key: str | None) -> str | None:
        """Return the next key that has one in line; the first of all, if None is given."""
        ...

    def admit_one(self, key: str) -> T_co | None:
        """Admit the first of a key that the claimer knows, unless the key has all its slots."""
        ...


def admit(line: Line[T], last_key: str | None, most: int) -> tuple[list[T], str | None]:
    """Admit at most so many, key after key; return them, and the key that was served last."""
    admitted: list[T] = []
    at, idle = last_key, None
    while len(admitted) < most:
        key = line.key_after(at)
        if key is None:
            key = line.key_after(None)
        if key is None or key == idle:
            break  # nobody stands there, or nobody of a whole lap may begin
        at, one = key, line.admit_one(key)
        if one is not None:
            admitted.append(one)
            last_key, idle = key, None
        elif idle is None:
            idle = key
    return admitted, last_key
