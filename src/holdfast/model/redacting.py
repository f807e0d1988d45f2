"""What is known to be secret in this process, and texts without it.

A net, not a proof: a value is found as it stands, quoted for JSON, Python or a URL, in base64 and
in hex. What code makes of it otherwise, or a value that is shorter than `SHORTEST`, passes. A
process without secrets pays one look at an empty dict.
"""

from __future__ import annotations

import json
import logging
import traceback
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

SHORTEST = 6
"""Characters a value must have to be looked for: shorter ones stand in too many harmless texts."""
MOST = 1_000
"""How many values are looked for; beyond that the oldest is forgotten."""
MASK = "***"

SHORTEST_LINE = 16
SHORTEST_BASE64 = 8
LOGGERS = (
    "holdfast", "holdfast.checkpoints", "holdfast.lint", "holdfast.log", "holdfast.observers",
    "holdfast.runtime", "holdfast.store", "holdfast.values", "holdfast.worker",
)  # fmt: skip
"""Our own loggers; a test compares them with the code."""

KNOWN: dict[str, tuple[str, ...]] = {}
"""Each value with the forms it is looked for in. Empty in a process without secrets."""
_log = logging.getLogger("holdfast.values")


def know(value: str) -> None:
    """Have this value left out of texts from now on."""
    if len(value) < SHORTEST or value in KNOWN:
        return
    if not KNOWN:
        for name in LOGGERS:
            logging.getLogger(name).addFilter(mask_secrets)
    if len(KNOWN) >= MOST:
        KNOWN.pop(next(iter(KNOWN)), None)
        _log.warning("more than %d secrets are in use; the oldest is no longer masked", MOST)
    # A dict keeps the forms in their order, each once.
    KNOWN[value] = tuple(dict.fromkeys(_forms(value)))


def redact(text: str) -> str:
    """Return the text with a mask in place of every secret that is known here."""
    if not KNOWN:
        return text
    for forms in tuple(KNOWN.values()):
        for form in forms:
            if form in text:
                text = text.replace(form, MASK)
    return text


def holds_secret(payload: bytes) -> bool:
    """Tell whether encoded bytes hold a secret that is known here."""
    text = payload.decode("utf-8", "replace")
    return any(form in text for forms in tuple(KNOWN.values()) for form in forms)


def redacted(value: Any) -> Any:
    """Return JSON natives with a mask in place of every secret, in keys and texts."""
    if not KNOWN:
        return value
    if _is(value, dict):
        return {redacted(key): redacted(item) for key, item in value.items()}
    if _is(value, list):
        return [redacted(item) for item in value]
    return redact(value) if _is(value, str) else value


def _is(value: Any, kind: type) -> bool:
    """Tell what `isinstance` tells, and leave the value's static type `Any`."""
    return isinstance(value, kind)


def mask_secrets(record: logging.LogRecord) -> bool:
    """Mask a log record with its arguments and its traceback.

    A filter of the standard library: `handler.addFilter(hf.mask_secrets)`.
    """
    if KNOWN:
        message = record.getMessage()
        if (masked := redact(message)) != message:
            record.msg, record.args = masked, None
        if record.exc_info and not record.exc_text:
            # A formatter that finds a text does not make its own.
            record.exc_text = redact("".join(traceback.format_exception(*record.exc_info))).rstrip()
        for name, value in record.__dict__.items():
            if type(value) is str and name not in ("msg", "exc_text"):
                record.__dict__[name] = redact(value)
    return True


def _forms(value: str) -> Iterator[str]:
    plain = value.encode("utf-8", "surrogatepass")
    yield value
    yield json.dumps(value)[1:-1]
    yield json.dumps(value, ensure_ascii=False)[1:-1]
    yield repr(value)[1:-1]
    yield from (_quoted(plain, safe) for safe in (b"-._~", b"-._~/"))
    yield _quoted(plain, b"-._~ ").replace(" ", "+")
    yield plain.hex()
    yield from _in_base64(plain)
    if "\n" in value:
        yield from (line for line in value.splitlines() if len(line) >= SHORTEST_LINE)


def _quoted(plain: bytes, safe: bytes) -> str:
    return "".join(
        chr(each) if (chr(each).isalnum() and each < 128) or each in safe else f"%{each:02X}"
        for each in plain
    )


def _in_base64(plain: bytes) -> Iterator[str]:
    """Yield what the value looks like wherever it stands in bytes that are written in base64."""
    for before in range(3):
        whole = b64encode(bytes(before) + plain).decode()
        # The first and last characters depend on what is around the value.
        first = -(-before * 8 // 6)
        last = (before + len(plain)) * 8 // 6
        core = whole[first:last]
        if len(core) >= SHORTEST_BASE64:
            yield core
            yield core.replace("+", "-").replace("/", "_")
