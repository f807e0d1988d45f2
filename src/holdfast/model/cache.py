"""Results of steps that later calls may use: what is kept, under which key, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from hashlib import blake2b
from inspect import iscoroutinefunction
from typing import NamedTuple

from holdfast.errors import BadCacheKey, BadDefinition
from holdfast.model.durations import Duration, microseconds

LONGEST_KEY = 255
DIGEST = 16
"""Bytes of the digest of arguments that is the key of a call, unless its step says otherwise."""


@dataclass(frozen=True, slots=True)
class Cache:
    """For how long later calls of a step may use a result: `@app.step(cache=hf.Cache(3600))`.

    `expires` is in seconds, or a timedelta; None stands for ever. Calls with the same arguments
    share a result, or those for which `key` returns the same text, given these arguments. With
    another `version` nothing is used that was kept before.
    """

    expires: Duration | None
    key: Callable[..., str] | None = None
    version: str = ""

    def __post_init__(self) -> None:
        if self.expires is not None and not microseconds(self.expires, field="Cache.expires"):
            raise BadDefinition(
                what=f"Cache.expires is {self.expires!s:.60}: nothing would ever be used",
                hint="Give a length of time above 0, or None for results that never expire.",
            )
        key: object = self.key
        if key is not None and (not callable(key) or iscoroutinefunction(key)):
            raise BadDefinition(
                what=f"Cache.key is {key!r:.60}",
                hint="Give a plain function that takes the step's arguments and returns a text.",
            )
        problem = _problem_of(self.version, shortest=0)
        if problem:
            raise BadDefinition(
                what=f"Cache.version {problem}",
                hint=f"Give a text of at most {LONGEST_KEY} printable characters.",
            )

    def expires_at(self, made_at: int) -> int | None:
        """Return from when on a result that was made then is used no more; None for never."""
        if self.expires is None:
            return None
        return made_at + microseconds(self.expires, field="Cache.expires")


class CacheKey(NamedTuple):
    """Under what the result of a call is kept."""

    step: str
    version: str
    key: str


class CachedResult(NamedTuple):
    """A result as it is kept, with the run that made it."""

    ns: str
    step: str
    version: str
    key: str
    result: bytes
    run: str
    made_at: int
    expires_at: int | None

    @property
    def at(self) -> CacheKey:
        """Under what it is kept."""
        return CacheKey(self.step, self.version, self.key)

    def is_of_use(self, now: int) -> bool:
        """Tell whether a call may use it now."""
        return self.expires_at is None or self.expires_at > now


class CacheFilter(NamedTuple):
    """Which results: of one step, under one key; what is empty stands for all."""

    ns: str
    step: str = ""
    key: str = ""

    def fits(self, kept: CachedResult) -> bool:
        """Tell whether it is one of them."""
        is_of_step = not self.step or kept.step == self.step
        return kept.ns == self.ns and is_of_step and (not self.key or kept.key == self.key)


class CachedStep(NamedTuple):
    """How much is kept of one version of a step: how many results, and how many bytes.

    `expired` of the results are used no more. `first_at` and `last_at` are when the oldest and the
    newest were made, in microseconds since 1970.
    """

    step: str
    version: str
    results: int
    expired: int
    bytes: int
    first_at: int
    last_at: int


def digest_key(args: bytes) -> str:
    """Return the key of a call by its encoded arguments."""
    return blake2b(args, digest_size=DIGEST).hexdigest()


def checked_cache_key(key: object, step: str) -> str:
    """Return what a step's own function gave as the key of a call. Raises `BadCacheKey`."""
    problem = _problem_of(key, shortest=1)
    if problem or not isinstance(key, str):
        raise BadCacheKey(step=step, problem=problem)
    return key


def _problem_of(text: object, *, shortest: int) -> str:
    if not isinstance(text, str):
        return f"is no text, it is {type(text).__name__}"
    if not shortest <= len(text) <= LONGEST_KEY:
        return f"has {len(text):,} characters, and may have {shortest} to {LONGEST_KEY}"
    return "" if text.isprintable() else "has a character that cannot be printed"
