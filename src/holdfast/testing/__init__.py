"""What Holdfast is tested with, shipped for those who test theirs.

The names are loaded when they are first used: a command that needs one module pays for that alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.errors import CrashtestFailed
    from holdfast.testing.crashing import Driven, crashtest
    from holdfast.testing.faking import Fake, fake
    from holdfast.testing.replaying import Replayed, replay

__all__ = ["CrashtestFailed", "Driven", "Fake", "Replayed", "crashtest", "fake", "replay"]

_MODULES = {
    "CrashtestFailed": "holdfast.errors",
    "Driven": "holdfast.testing.crashing",
    "Fake": "holdfast.testing.faking",
    "Replayed": "holdfast.testing.replaying",
    "crashtest": "holdfast.testing.crashing",
    "fake": "holdfast.testing.faking",
    "replay": "holdfast.testing.replaying",
}


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name not in _MODULES:
        raise AttributeError(f"module 'holdfast.testing' has no attribute {name!r}")
    found = getattr(import_module(_MODULES[name]), name)
    globals()[name] = found
    return found
