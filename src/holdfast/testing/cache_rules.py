"""I24: what is kept for later calls of a step is a result that the history of its run holds.

Of runs that are forgotten nobody can tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from holdfast.model.cache import CachedResult
from holdfast.model.dump import Dump, RunKey
from holdfast.model.events import Event


def broken_results(dump: Dump) -> Iterator[tuple[RunKey, str]]:
    """Yield what does not hold, each with the run that is said to have made it."""
    begun = {(run.ns, run.id): run.created_at for run in dump.runs}
    for kept in dump.cache:
        key = (kept.ns, kept.run)
        if begun.get(key, kept.made_at + 1) > kept.made_at:
            continue  # its run is forgotten; another may have its id
        if not _is_recorded(kept, dump.events.get(key, ())):
            yield key, f"a result of {kept.step} is kept for others, and it has recorded none such"


def _is_recorded(kept: CachedResult, events: Sequence[Event]) -> bool:
    return any(
        event.kind == "step.completed"
        and (event.at, event.payload) == (kept.made_at, kept.result)
        and event.key.rpartition("/")[2].rpartition("#")[0] == kept.step
        for event in events
    )
