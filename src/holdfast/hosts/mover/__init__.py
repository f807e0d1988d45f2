"""The mover: takes everything from one store to another."""

from holdfast.hosts.mover.mover import Moved, Mover, Sight, take_back

__all__ = ["Moved", "Mover", "Sight", "take_back"]
