"""A secret shows itself nowhere, and what it holds is masked wherever it turns up."""

import copy
import json
import logging
import pickle
from base64 import b64encode, urlsafe_b64encode
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

import holdfast as hf
from holdfast.model import redacting
from holdfast.model.redacting import KNOWN, MASK, holds_secret, redact

TEXT = 's3cr3t/with+marks äöü "quoted"'
SOURCE = Path(hf.__file__).parent


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{:>40}".format, lambda s: f"{[s]}"])
def test_a_secret_does_not_show_what_it_holds(show: object) -> None:
    assert callable(show)
    assert "Secret(***)" in show(hf.Secret(TEXT))
    assert TEXT not in show(hf.Secret(TEXT))


def test_a_secret_reveals_what_it_holds() -> None:
    assert hf.Secret(TEXT).reveal() == TEXT


def test_secrets_are_equal_if_they_hold_the_same() -> None:
    assert hf.Secret(TEXT) == hf.Secret(TEXT)
    assert hash(hf.Secret(TEXT)) == hash(hf.Secret(TEXT))
    assert hf.Secret(TEXT) != hf.Secret("another")
    assert hf.Secret(TEXT) != TEXT


def test_a_secret_has_no_form_that_could_be_written() -> None:
    secret = hf.Secret(TEXT)
    with pytest.raises(TypeError, match="Secret is not JSON serializable"):
        json.dumps(secret)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(hf.SecretSerialisationError, match="never stored"):
            pickle.dumps(secret, protocol)
    with pytest.raises(TypeError):
        vars(secret)
    assert not hasattr(secret, "__dict__")


def test_a_copy_of_what_holds_a_secret_holds_the_same_one() -> None:
    @dataclass
    class Settings:
        token: hf.Secret

    settings = Settings(hf.Secret(TEXT))
    assert asdict(settings)["token"] is settings.token
    assert copy.deepcopy(settings).token is settings.token


def test_a_model_may_hold_a_secret_and_cannot_be_written_as_json() -> None:
    class Settings(BaseModel):
        token: hf.Secret

    settings = Settings(token=hf.Secret(TEXT))
    assert TEXT not in repr(settings)
    with pytest.raises(Exception, match="never stored") as raised:
        settings.model_dump_json()
    assert TEXT not in str(raised.value)
    with pytest.raises(ValueError, match="instance of Secret"):
        Settings(token="plain")  # type: ignore[arg-type]


def test_what_is_no_text_is_no_secret() -> None:
    with pytest.raises(hf.InvalidValue, match=r"hf\.Secret: value: bytes is no text"):
        hf.Secret(b"bytes")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "form",
    [
        TEXT, json.dumps(TEXT), json.dumps({"a": TEXT}, ensure_ascii=False), repr(TEXT),
        quote(TEXT), quote(TEXT, safe=""), quote_plus(TEXT), TEXT.encode().hex(),
        b64encode(TEXT.encode()).decode(), urlsafe_b64encode(TEXT.encode()).decode(),
        b64encode(f"user:{TEXT}".encode()).decode(), b64encode(f"me:{TEXT}x".encode()).decode(),
        f"postgresql://ada:{quote(TEXT)}@host/db",
    ],
)  # fmt: skip
def test_a_secret_is_masked_in_every_usual_form(form: str) -> None:
    hf.Secret(TEXT)
    masked = redact(f"before {form} after")
    assert MASK in masked
    assert masked.startswith("before ")
    assert masked.endswith(" after")
    assert "s3cr3t" not in masked
    assert holds_secret(form.encode())


def test_the_lines_of_a_key_are_masked_too() -> None:
    hf.Secret("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\n-----END KEY-----\n")
    assert redact("read MIIEvQIBADANBgkqhkiG") == "read ***"


@given(st.text(min_size=6), st.text(), st.text())
def test_whatever_a_secret_is_it_is_not_found_in_a_masked_text(
    value: str, before: str, after: str
) -> None:
    KNOWN.clear()
    hf.Secret(value)
    masked = redact(before + value + after)
    # What is left may spell a mask, and a secret may be made of its marks.
    assert value not in masked or value.strip("*") == "" or value in MASK


def test_what_is_short_is_not_masked() -> None:
    hf.Secret("abc")
    assert redact("abc") == "abc"
    assert not KNOWN


def test_the_number_of_masked_secrets_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redacting, "MOST", 2)
    for value in ("first-secret", "second-secret", "third-secret"):
        hf.Secret(value)
    assert list(KNOWN) == ["second-secret", "third-secret"]


def test_our_log_lines_are_masked_with_their_arguments_and_tracebacks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    hf.Secret(TEXT)
    log = logging.getLogger("holdfast.worker")
    with caplog.at_level("DEBUG"):
        try:
            raise ConnectionError(f"cannot log in with {TEXT}")
        except ConnectionError as error:
            log.error("it failed: %s", error, exc_info=True, extra={"token": TEXT})
    (record,) = caplog.records
    assert "it failed: cannot log in with ***" in caplog.text
    assert "s3cr3t" not in caplog.text
    assert "s3cr3t" not in str(vars(record)["token"])


def test_the_list_of_our_loggers_is_complete() -> None:
    named = {
        line.partition('getLogger("')[2].partition('"')[0]
        for file in SOURCE.rglob("*.py")
        for line in file.read_text("utf-8").splitlines()
        if 'getLogger("holdfast' in line
    }
    assert named == set(redacting.LOGGERS), "add the new one to LOGGERS in model/redacting.py"
