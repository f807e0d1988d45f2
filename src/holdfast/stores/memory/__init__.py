"""The memory store: the oracle the other stores are compared with."""

from holdfast.stores.memory.store import MemoryStore

__all__ = ["MemoryStore"]
