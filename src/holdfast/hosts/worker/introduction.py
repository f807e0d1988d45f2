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


def introduced(app: App, queues: Sequence[str] | None) -> str:
    """Return app, release, place, workflows and queues (none named: all), as JSON."""
    return json.dumps({
        "app": app.name, "version": RELEASE, "host": gethostname(), "pid": os.getpid(),
        "workflows": list(app.versions.claims())[:LISTED],
        "queues": None if queues is None else list(queues),
    })  # fmt: skip
