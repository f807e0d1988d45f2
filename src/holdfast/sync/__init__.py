"""The sync door: `app.open_sync(url)` for scripts, Flask and notebooks."""

from holdfast.sync.client import SyncClient, SyncRunHandle, SyncUpdateHandle
from holdfast.sync.portal import Portal

__all__ = ["Portal", "SyncClient", "SyncRunHandle", "SyncUpdateHandle"]
