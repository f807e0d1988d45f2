"""How a worker and the process of an isolated step speak: JSON objects, each after its length."""

from __future__ import annotations

import json
import os
from asyncio import IncompleteReadError, StreamReader
from base64 import b64decode, b64encode
from typing import Any

HEAD = 4
"""Bytes of a length."""


def framed(fields: dict[str, Any]) -> bytes:
    """Return one object as it is sent."""
    body = json.dumps(fields, separators=(",", ":")).encode()
    return len(body).to_bytes(HEAD, "big") + body


async def received(reader: StreamReader) -> dict[str, Any] | None:
    """Return the next object that was sent; None if the other side is gone."""
    try:
        body = await reader.readexactly(int.from_bytes(await reader.readexactly(HEAD), "big"))
    except (IncompleteReadError, ConnectionError):
        return None
    found: dict[str, Any] = json.loads(body)
    return found


def read(file: int) -> dict[str, Any] | None:
    """As `received`, from a file that blocks."""
    head = _exactly(file, HEAD)
    body = None if head is None else _exactly(file, int.from_bytes(head, "big"))
    return None if body is None else json.loads(body)


def _exactly(file: int, count: int) -> bytes | None:
    parts = list[bytes]()
    while count:
        part = os.read(file, min(count, 1 << 20))
        if not part:
            return None
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def text_of(payload: bytes | None) -> str | None:
    """Return bytes as JSON can hold them."""
    return None if payload is None else b64encode(payload).decode()


def bytes_of(text: str | None) -> bytes | None:
    """Return what `text_of` was given."""
    return None if text is None else b64decode(text)
