"""How much waits for workers, by workflow and queue."""

from __future__ import annotations

from typing import NamedTuple


class Backlog(NamedTuple):
    """The open runs of one workflow on one queue that no worker holds and that go on by themselves.

    `pending` of them could go on now; `oldest` is since when the first of these could, 0 if there
    is none. `later` wait for a time that has not come, `in_line` for a slot of their queue.
    """

    workflow: str
    queue: str
    pending: int = 0
    later: int = 0
    oldest: int = 0
    in_line: int = 0

    def plus(self, wake_at: int, now: int, *, is_in_line: bool) -> Backlog:
        """Return it with one more run, which goes on at `wake_at`, if not before."""
        if wake_at > now and is_in_line:
            return self._replace(in_line=self.in_line + 1)
        if wake_at > now:
            return self._replace(later=self.later + 1)
        oldest = min(self.oldest, wake_at) if self.pending else wake_at
        return self._replace(pending=self.pending + 1, oldest=oldest)
