"""Which release this is."""

from __future__ import annotations

RELEASE = "0.1.0"
