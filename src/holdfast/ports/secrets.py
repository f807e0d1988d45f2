"""Where secrets come from, and what encrypts those that are stored."""

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


class Keys(Protocol):
    """A ring of keys."""

    def seal(self, plain: bytes, aad: bytes) -> tuple[str, bytes]:
        """Encrypt, bound to `aad`; return the id of the key, and the bytes to store."""
        ...

    def unseal(self, key: str, sealed: bytes, aad: bytes) -> bytes:
        """Return what `seal` was given. Raises `CannotDecrypt`."""
        ...
