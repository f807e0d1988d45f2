"""How a payload stands in a row that is not plain: its first byte tells, and no JSON begins so.

Encrypted: 1, the key's id, the place it was sealed for, the encrypted bytes. A blob: 2, its name,
its size. The bytes of a blob may be encrypted in turn. The place is not secret; it is bound into
the encryption, so that bytes that were moved elsewhere are found out.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from typing import NamedTuple

from holdfast.model.family import cut_report

PLAIN, ENCRYPTED, BLOB = 0, 1, 2
"""Values of the column `codec` of an event, and the first byte of what is not plain."""

_ENCRYPTED = bytes((ENCRYPTED,))
_BLOB = bytes((BLOB,))
_SIZE = 2


class Place(NamedTuple):
    """Where a payload belongs. `what` says what it is there, with the key or id under which."""

    ns: str
    run: str
    what: str

    def encoded(self) -> bytes:
        """Return the place as bytes."""
        return "\0".join(self).encode("utf-8", "surrogatepass")


class Reference(NamedTuple):
    """What a row says of a blob."""

    name: str
    size: int

    def encoded(self) -> bytes:
        """Return what the row holds."""
        return _BLOB + f"{self.name}:{self.size}".encode()


class Encrypted(NamedTuple):
    """An envelope, taken apart."""

    key: str
    place: Place
    head: bytes
    body: bytes


def is_sealed(payload: bytes | None) -> bool:
    """Tell whether a payload is not plain."""
    return payload is not None and payload[:1] in (_ENCRYPTED, _BLOB)


def reference_in(payload: bytes | None) -> Reference | None:
    """Return the blob that a payload names, if it names one."""
    if payload is None or payload[:1] != _BLOB:
        return None
    name, _, size = payload[1:].decode("ascii", "replace").partition(":")
    return Reference(name, int(size) if size.isdecimal() else 0)


def named_in(payloads: Iterable[bytes]) -> frozenset[str]:
    """Return the names of the blobs that payloads name, also in what a parent is told."""
    found = (reference_in(each) or reference_in(cut_report(each)[1]) for each in payloads)
    return frozenset(reference.name for reference in found if reference is not None)


def head_of(key: str, place: bytes) -> bytes:
    """Return what stands before the encrypted bytes, and is bound into them."""
    id = key.encode()
    return b"".join((
        _ENCRYPTED, len(id).to_bytes(_SIZE), id, len(place).to_bytes(_SIZE), place
    ))  # fmt: skip


def encrypted_in(payload: bytes) -> Encrypted:
    """Take an envelope apart. Raises `ValueError`."""
    id, at = _field(payload, 1)
    place, at = _field(payload, at)
    parts = place.decode("utf-8", "surrogatepass").split("\0", 2)
    if len(parts) != 3 or payload[:1] != _ENCRYPTED:
        raise ValueError("no envelope")
    return Encrypted(id.decode(), Place(*parts), payload[:at], payload[at:])


def _field(payload: bytes, at: int) -> tuple[bytes, int]:
    size = int.from_bytes(payload[at : at + _SIZE])
    begin = at + _SIZE
    if len(payload) < begin + size:
        raise ValueError("cut off")
    return payload[begin : begin + size], begin + size


def fits(name: str, data: bytes) -> bool:
    """Tell whether these are the bytes that the name promises."""
    return sha256(data).hexdigest() == name.partition("-")[0]
