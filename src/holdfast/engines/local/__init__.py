"""Our own engine: the kernel's rules on a store."""

from holdfast.engines.local.engine import LocalEngine

__all__ = ["LocalEngine"]
