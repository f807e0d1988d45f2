"""Secrets do not cross the line, wherever in a value they stand."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
from pydantic import BaseModel

import holdfast as hf
from holdfast.machine.values import Schema, Signature
from holdfast.machine.values.codec import is_harmless

TEXT = "hunter22-hunter22"


class Named(NamedTuple):
    token: Any


@dataclass
class Data:
    inner: Any


class Model(BaseModel):
    token: Any


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (hf.Secret(TEXT), "result"),
        ({"a": [1, {"b": hf.Secret(TEXT)}]}, "result.a[1].b"),
        ([hf.Secret(TEXT)], "result[0]"),
    ],
)
def test_a_secret_in_a_value_without_annotation_is_refused(value: Any, path: str) -> None:
    with pytest.raises(hf.SecretSerialisationError) as raised:
        Schema.of(Any).cross(value, where="result of step connect#1")
    assert raised.value.path == path
    assert TEXT not in str(raised.value)
    assert isinstance(raised.value, hf.Unserialisable)


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (Named, Named(hf.Secret(TEXT)), "input.token"),
        (Data, Data({"k": hf.Secret(TEXT)}), "input.inner.k"),
        (Model, Model(token=[hf.Secret(TEXT)]), "input.token[0]"),
    ],
)
def test_a_secret_in_a_class_is_refused_with_its_path(kind: Any, value: Any, path: str) -> None:
    with pytest.raises(hf.SecretSerialisationError) as raised:
        Schema.of(kind).cross(value, where="input of order")
    assert raised.value.path == path


@pytest.mark.parametrize(
    ("kind", "value", "path"),
    [
        (str, f"Bearer {TEXT}", "result"),
        (Any, {"url": f"https://ada:{TEXT}@host"}, "result.url"),
        (dict[str, str], {TEXT: "x"}, "result{key}"),
        (bytes, TEXT.encode(), "result"),
        (Data, Data([1, TEXT]), "result.inner[1]"),
    ],
)
def test_a_value_that_holds_the_text_of_a_secret_is_refused(
    kind: Any, value: Any, path: str
) -> None:
    hf.Secret(TEXT)
    with pytest.raises(hf.SecretSerialisationError, match="the text of a secret") as raised:
        Schema.of(kind).cross(value, where="result of step connect#1")
    assert raised.value.path == path
    assert TEXT not in str(raised.value)


def test_arguments_that_hold_the_text_of_a_secret_are_refused() -> None:
    def order(item: str, token: str) -> None: ...

    hf.Secret(TEXT)
    with pytest.raises(hf.SecretSerialisationError, match="arguments of order: token: the text"):
        Signature.of(order).encode(("lamp", TEXT), {})
    assert is_harmless(b'{"item":"lamp"}')


def test_a_secret_is_no_type_of_a_parameter_or_result() -> None:
    def order(token: hf.Secret) -> None: ...

    def connect() -> hf.Secret:
        raise NotImplementedError

    @dataclass
    class Login:
        token: hf.Secret

    def login(how: Login | None) -> None: ...

    for function in (order, connect, login):
        with pytest.raises(hf.BadDefinition, match=r"hf\.Secret cannot be stored") as raised:
            Signature.of(function, names={"Login": Login})
        assert "@app.step(secrets=" in str(raised.value)
