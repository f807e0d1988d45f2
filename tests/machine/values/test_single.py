"""The one plain argument of a call is written as pydantic writes it, or not at all."""

from __future__ import annotations

import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, SecretSerialisationError
from holdfast.machine.values import Signature
from holdfast.machine.values.single import left, writer_of
from holdfast.model import redacting


def number(n: int) -> None: ...
def text(größe: str) -> None: ...


def by_codec(signature: Signature, value: Any) -> bytes:
    """Return what pydantic writes for a call with this argument."""
    core = vars(signature)["_core"]
    [name] = vars(signature)["_names"]
    written: bytes = core.serializer.to_json({name: value})
    return written


NUMBER, TEXT = Signature.of(number), Signature.of(text)
EVERY_CHARACTER = "".join(
    chr(code) for code in range(1, sys.maxunicode + 1) if not 0xD800 <= code <= 0xDFFF
)


@given(st.integers())
def test_numbers(value: int) -> None:
    assert NUMBER.quickly((value,)) == NUMBER.encode((value,), {}) == by_codec(NUMBER, value)


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_texts(value: str) -> None:
    assert TEXT.quickly((value,)) in (None, by_codec(TEXT, value))
    assert TEXT.encode((value,), {}) == by_codec(TEXT, value)


def test_a_text_without_escapes_is_written_here() -> None:
    assert TEXT.quickly(("Größe",)) == '{"größe":"Größe"}'.encode()


def test_every_character_there_is() -> None:
    for start in range(0, len(EVERY_CHARACTER), 256):
        value = EVERY_CHARACTER[start : start + 256]
        assert TEXT.quickly((value,)) in (None, by_codec(TEXT, value))
        assert TEXT.encode((value,), {}) == by_codec(TEXT, value)


def test_a_call_without_arguments_is_written_without_the_codec() -> None:
    def idle() -> None: ...

    signature = Signature.of(idle)
    assert signature.quickly(()) == signature.encode((), {}) == b"{}"
    assert signature.quickly((1,)) is None


@pytest.mark.parametrize("kind", [bool, float, bytes, list, None])
def test_other_types_are_left_to_the_codec(kind: type | None) -> None:
    assert writer_of("x", kind) is left


@pytest.mark.parametrize("args", [(), (1, 2), (True,), ("1",), (1.0,), (None,)], ids=str)
def test_other_arguments_are_left_to_the_codec(args: tuple[Any, ...]) -> None:
    assert NUMBER.quickly(args) is None


@pytest.mark.parametrize(
    ("signature", "value"),
    [(TEXT, "\ud800"), (TEXT, "a\0b"), (NUMBER, 10**5_000), (NUMBER, True), (TEXT, 5)],
    ids=["surrogate", "nul", "digits", "bool", "number"],
)
def test_what_cannot_cross_is_refused_as_ever(signature: Signature, value: Any) -> None:
    assert signature.quickly((value,)) is None
    with pytest.raises(HoldfastError):
        signature.encode((value,), {})


def test_a_secret_is_found() -> None:
    redacting.know("hunter2-hunter2")
    try:
        assert TEXT.quickly(("my hunter2-hunter2",)) is None
        with pytest.raises(SecretSerialisationError):
            TEXT.encode(("my hunter2-hunter2",), {})
    finally:
        redacting.KNOWN.pop("hunter2-hunter2")
