"""What a worker says of itself in its row, for people who look at the store."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from socket import gethostname

from holdfast.app import App
from holdfast.model.release import RELEASE

LISTED = 100
"""Workflows that are named."""


def introduced(app: App, queues: Sequence[str] | None, stuck: int = 0) -> str:
    """Return app, release, place, workflows, queues (none named: all), stuck threads, as JSON."""
    said = {
        "app": app.name, "version": RELEASE, "host": gethostname(), "pid": os.getpid(),
        "workflows": list(app.versions.claims())[:LISTED],
        "queues": None if queues is None else list(queues),
    }  # fmt: skip
    return json.dumps(said | {"stuck_threads": stuck} if stuck else said)
