"""What is witnessed in a database of the user's: that a step took effect there."""

from __future__ import annotations

from typing import NamedTuple


class Deed(NamedTuple):
    """A step's work, by the name it has on every attempt; and who does it, for people to see."""

    ns: str
    run: str
    generation: int
    key: str
    epoch: int = 0
