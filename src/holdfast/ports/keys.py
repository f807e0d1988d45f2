"""The Keys port: what encrypts payloads and secrets before they leave the process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Keys(Protocol):
    """A ring of keys: the current one encrypts, and each of them decrypts."""

    @property
    def current(self) -> str:
        """The id of the key that encrypts."""
        ...

    @property
    def ids(self) -> Sequence[str]:
        """The ids of all keys."""
        ...

    def seal(self, plain: bytes, aad: bytes) -> tuple[str, bytes]:
        """Encrypt with the current key, bound to `aad`; return its id and the encrypted bytes."""
        ...

    def unseal(self, key: str, sealed: bytes, aad: bytes) -> bytes:
        """Return what `seal` was given. Raises `CannotDecrypt`."""
        ...

    def pad(self, key: str, place: bytes) -> bytes:
        """Return 32 bytes that nobody can tell without the key: for each place the same.

        Raises `CannotDecrypt`.
        """
        ...
