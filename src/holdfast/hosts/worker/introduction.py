"""What a worker says of itself in its row, for people who look at the store."""

from __future__ import annotations

import json
import os
from socket import gethostname

from holdfast.app import App
from holdfast.model.release import RELEASE

LISTED = 100
"""Workflows that are named."""


def introduced(app: App) -> str:
    """Return app, release, place and workflows, as JSON."""
    return json.dumps({
        "app": app.name, "version": RELEASE, "host": gethostname(), "pid": os.getpid(),
        "workflows": list(app.versions.claims())[:LISTED],
    })  # fmt: skip
