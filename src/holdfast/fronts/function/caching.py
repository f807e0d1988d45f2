"""Which steps may use results of earlier calls, and which must not."""

from __future__ import annotations

from typing import Any

from holdfast.errors import BadDefinition
from holdfast.model.cache import Cache


def checked_cache(cache: Cache | None) -> Cache | None:
    """Return what a step says of its cache. Raises `BadDefinition`."""
    given: object = cache
    if given is None or isinstance(given, Cache):
        return cache
    raise BadDefinition(
        what=f"cache={given!r:.60} is no Cache",
        hint="Write cache=hf.Cache(expires=3600), with the seconds for which a result is used.",
    )


def check_cached(step: Any) -> None:
    """Refuse a cache where another call's result cannot stand for a step's own."""
    settings = step.settings
    if settings.cache is None:
        return
    reason = ""
    if step.secrets:
        reason = "lists secrets, and what comes of those must not be kept for others"
    elif settings.at_most_once:
        reason = "runs at most once for what it does, and a cached result does nothing"
    elif step.completes_later:
        reason = "completes later, and its outcome is for the one who has its token"
    elif step.is_transaction:
        reason = "is a transaction, and a cached result writes nothing"
    if reason:
        raise BadDefinition(
            what=f"Step {step.name!r} has a cache and {reason}",
            hint="Leave out cache=, or read what may be used again in a step of its own.",
        )
