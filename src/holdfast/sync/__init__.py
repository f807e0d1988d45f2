"""The sync door: `app.open_sync(url)` for scripts, Flask and notebooks."""

from holdfast.sync.client import (
    SyncClient,
    SyncEntityHandle,
    SyncQueues,
    SyncRunHandle,
    SyncSchedules,
    SyncStepCache,
    SyncUpdateHandle,
)
from holdfast.sync.portal import Portal

__all__ = [
    "Portal", "SyncClient", "SyncEntityHandle", "SyncQueues", "SyncRunHandle", "SyncSchedules",
    "SyncStepCache", "SyncUpdateHandle",
]  # fmt: skip
