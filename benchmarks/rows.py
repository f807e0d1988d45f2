"""One measurement: a row that a driver prints as a JSON line and the rounds collect."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Row:
    engine: str
    store: str
    work: str
    variant: str = ""
    figures: Mapping[str, float] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)  # read back from the engine
    machine: Mapping[str, float] = field(default_factory=dict)  # its speed just after this row
    round: int = 0

    @property
    def contender(self) -> str:
        return f"{self.engine}/{self.store}"


def to_line(row: Row) -> str:
    return json.dumps(asdict(row))


def from_line(line: str, round_: int) -> Row | None:
    """Return the row of a driver's line, or None for anything else the engine printed."""
    if not line.startswith('{"engine"'):
        return None
    return Row(**{**json.loads(line), "round": round_})


def emit(row: Row) -> None:
    sys.stdout.write(to_line(row) + "\n")
    sys.stdout.flush()
