"""What a run of a graph did, as an event: `node.start`, `edge.transition`, `graph.complete`..."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

ENDS = frozenset({"graph.complete", "graph.failed", "graph.cancelled"})


class ExecutionEvent(NamedTuple):
    """One thing that a run of a graph did. `source` is the name of the graph.

    `seq` is the number of the event of the history to which it belongs, and `part` its own among
    those of that event. `data` depends on the type; see the page on graphs.
    """

    type: str
    timestamp: datetime
    source: str
    data: Mapping[str, Any]
    run_id: str
    seq: int
    part: int = 1

    @property
    def id(self) -> str:
        """Where it is in the run, as in `12.3`: give it as `after`, and what follows comes."""
        return f"{self.seq}.{self.part}"

    @property
    def place(self) -> tuple[int, int]:
        """The same as two numbers, which can be compared with those of others of the run."""
        return self.seq, self.part

    @property
    def closes(self) -> bool:
        """Tell whether the run ends with it."""
        return self.type in ENDS and "within" not in self.data
