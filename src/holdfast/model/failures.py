"""Failures as they are stored: JSON made from `Failure`, and back."""

from __future__ import annotations

import json
import traceback
from collections.abc import Sequence
from typing import Any, cast

from holdfast.errors import HoldfastError, Owed
from holdfast.model.asks import Ended
from holdfast.model.events import Failure
from holdfast.model.redacting import redact, redacted

MESSAGE_LIMIT = 4_000
TRACEBACK_LIMIT = 16_000
REASON_LIMIT = 200
EMPTY = Failure(type="", message="")


def failure_of(error: BaseException, *, attempts: int = 1, details: Any = None) -> Failure:
    """Describe `error` in words that can be stored: without the secrets that are known here."""
    name = type(error).__qualname__
    # The plain message: our own errors append their code in __str__, once is enough.
    is_ours = isinstance(error, HoldfastError) and bool(error.args)
    message = str(error.args[0]) if is_ours else said(error)
    return Failure(
        type=name,
        message=_printable(redact(message))[:MESSAGE_LIMIT],
        attempts=attempts,
        traceback=_printable(redact(_trace(error)))[-TRACEBACK_LIMIT:],
        details=redacted(details) if details else {},
    )


def _trace(error: BaseException) -> str:
    """Return where an error came from and after which others, as far as its class lets us look."""
    try:
        lines = traceback.format_exception(type(error), error, error.__traceback__)
    except Exception:
        lines = traceback.format_tb(BaseException.__getattribute__(error, "__traceback__"))
    return "".join(lines)


def said(error: BaseException) -> str:
    """Return what an error says of itself, whatever its class does when it is asked."""
    try:
        return str(error)
    except Exception as trouble:
        return f"(its message cannot be read: {type(trouble).__name__})"


def not_compensated(ended: Ended, cancelled_by: str, owed: Sequence[Owed]) -> Failure:
    """Describe what is left undone, in order, and how the run would have ended without that."""
    told = ended.failure
    is_overdue = ended.status == "cancelled" and cancelled_by == "deadline.passed"
    status: str = "timed_out" if is_overdue else ended.status
    original, after = {"status": status}, status.replace("_", " ")
    if told is not None:
        original |= {"type": told.type, "message": told.message}
        after = f"{told.type}: {told.message}"
    return Failure(
        type="CompensationFailed",
        message=f"still owed: {'; '.join(map(str, owed))}, after {after}"[:MESSAGE_LIMIT],
        traceback=told.traceback if told is not None else "",
        details={"owed": [each._asdict() for each in owed], "original": original},
    )


def in_a_line(type: str, message: str) -> str:
    """Return a failure as the reason of a run says it; what is cut off shows that it was."""
    told = _printable(redact(f"{type}: {message}"))
    return told if len(told) <= REASON_LIMIT else f"{told[: REASON_LIMIT - 1]}…"


def encode_failure(failure: Failure) -> bytes:
    """Return the bytes an event's payload holds."""
    fields = {name: value for name, value in failure._asdict().items() if value not in ("", {}, ())}
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode()


def decode_failure(payload: bytes | None) -> Failure:
    """Return what `encode_failure` was given."""
    if not payload:
        return EMPTY
    fields = cast("dict[str, Any]", json.loads(payload))
    fields["cause"] = tuple(fields.get("cause", ()))
    return EMPTY._replace(**fields)


def _printable(text: str) -> str:
    """Drop what no store keeps: NUL, and halves of surrogate pairs."""
    return text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
