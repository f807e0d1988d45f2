"""A ring of keys: the current one encrypts, and every one on it decrypts what it once encrypted.

AES-256-GCM with a random nonce of 96 bits. What is encrypted is bound to its place by `aad`, which
is not stored: bytes that were moved to another place do not open there.
"""

from __future__ import annotations

import os
import secrets
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from hmac import digest
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from holdfast.errors import BadDefinition, CannotDecrypt, MissingExtra
from holdfast.model.checks import checked_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

VARIABLE = "HOLDFAST_KEYS"
KEY_BYTES = 32
NONCE_BYTES = 12


class KeyRing:
    """Keys of 32 bytes by their ids: `hf.KeyRing({"2026-11": key}, current="2026-11")`.

    A key is given as bytes, or as the text that `KeyRing.new_key()` returns. Without `current` the
    one that was given last encrypts. A key that is no longer used stays on the ring for as long as
    something stored was encrypted with it. Needs the extra `crypto`.
    """

    __slots__ = ("_ciphers", "_pads", "current")

    def __init__(self, keys: Mapping[str, bytes | str], *, current: str | None = None) -> None:
        ciphers = _aesgcm()
        raw = {checked_id(id, field="key id"): _key_of(id, key) for id, key in keys.items()}
        self._ciphers: dict[str, AESGCM] = {id: ciphers(key) for id, key in raw.items()}
        self._pads = {id: digest(key, b"holdfast pads", "sha256") for id, key in raw.items()}
        self.current = next(reversed(self._ciphers), "") if current is None else current
        if self.current not in self._ciphers:
            raise BadDefinition(
                what=f"The key ring has no key {self.current!r:.60}, to be its current one",
                hint='Write hf.KeyRing({"2026-11": key}, current="2026-11").',
            )

    def __repr__(self) -> str:
        return f"<key ring of {', '.join(self._ciphers)}; current {self.current}>"

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its keys."""
        return tuple(self._ciphers)

    def seal(self, plain: bytes, aad: bytes) -> tuple[str, bytes]:
        """Encrypt with the current key; return its id, and the nonce with the encrypted bytes."""
        nonce = secrets.token_bytes(NONCE_BYTES)
        return self.current, nonce + self._ciphers[self.current].encrypt(nonce, plain, aad)

    def unseal(self, key: str, sealed: bytes, aad: bytes) -> bytes:
        """Return what `seal` was given. Raises `CannotDecrypt`."""
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(key)
        if cipher is None:
            raise CannotDecrypt(key=key, problem="is not on the key ring")
        try:
            return cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], aad)
        except (InvalidTag, ValueError):
            problem = "does not open it: these are another key's bytes, or another place's"
            raise CannotDecrypt(key=key, problem=problem) from None

    def pad(self, key: str, place: bytes) -> bytes:
        """Return 32 bytes that only the key tells: for each place the same. Raises `CannotDecrypt`.

        They hide what must be the same bytes each time, such as the digest of an input.
        """
        derived = self._pads.get(key)
        if derived is None:
            raise CannotDecrypt(key=key, problem="is not on the key ring")
        return digest(derived, place, "sha256")

    @staticmethod
    def new_key() -> str:
        """Return a new key as a text."""
        return urlsafe_b64encode(secrets.token_bytes(KEY_BYTES)).decode()

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Read `id:key`, separated by commas or white space; the last key is the current one."""
        pairs = (pair.partition(":") for pair in text.replace(",", " ").split())
        return cls({id: key for id, _, key in pairs})

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Read a file that holds what `from_text` reads."""
        return cls.from_text(Path(path).read_text("utf-8"))

    @classmethod
    def from_env(cls, variable: str = VARIABLE) -> Self:
        """Read a variable of the environment that holds what `from_text` reads."""
        text = os.environ.get(variable, "")
        if not text.strip():
            raise BadDefinition(
                what=f"The variable {variable} holds no keys",
                hint='Set it to id:key, with a key from hf.KeyRing.new_key(), as in "2026-11:...".',
            )
        return cls.from_text(text)


def _aesgcm() -> type[AESGCM]:
    try:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    except ModuleNotFoundError as error:
        raise MissingExtra(what="Encryption", extra="crypto") from error
    return AESGCM


def _key_of(id: str, given: Any) -> bytes:
    """Return the bytes of a key. Raises `BadDefinition`, which does not show it."""
    try:
        key = urlsafe_b64decode(given) if isinstance(given, str) else bytes(given)
    except (TypeError, ValueError):
        key = b""
    if len(key) != KEY_BYTES:
        raise BadDefinition(
            what=f"Key {id!r:.60} of the key ring is not {KEY_BYTES} bytes long",
            hint="Make one with hf.KeyRing.new_key(), and keep it where only your workers read it.",
        )
    return key
