"""Bodies, run deterministically: the loop, the replay check and the primitives."""

from holdfast.machine.machine import Machine, current

__all__ = ["Machine", "current"]
