"""Where secrets come from."""

from __future__ import annotations

from typing import Protocol

from holdfast.model.secrets import Secret


class SecretProvider(Protocol):
    """Finds secrets by name, each time a step that lists them is about to begin."""

    async def get(self, name: str) -> Secret | None:
        """Return the secret, or None if there is none of that name.

        What it raises is no failure of the step: the run waits, and it is asked again.
        """
        ...
