"""Which secrets a step may list, and where it may read them."""

from typing import Any

import pytest

import holdfast as hf


@pytest.mark.parametrize("names", ["token", [""], ["../token"], ["a/b"], [7], ["a\nb"]])
def test_secrets_are_listed_by_names_that_can_be_stored(names: Any) -> None:
    app = hf.App("shop")
    with pytest.raises(hf.BadDefinition, match=r"Step 'charge': secret.* Write secrets="):

        @app.step(secrets=names)
        async def charge() -> None: ...


def test_a_secret_is_read_in_no_other_place_than_a_step() -> None:
    with pytest.raises(hf.NotInStep, match=r"hf.secret\(\) works only while a step runs"):
        hf.secret("token")


def test_a_parameter_that_is_a_secret_is_refused_when_it_is_defined() -> None:
    app = hf.App("shop")
    with pytest.raises(hf.BadDefinition, match=r"its parameter 'token' is an hf\.Secret"):

        @app.workflow
        async def order(token: hf.Secret) -> None: ...

    with pytest.raises(hf.BadDefinition, match=r"its result is an hf\.Secret") as raised:

        @app.step
        def connect() -> "hf.Secret":
            raise NotImplementedError

    assert "@app.step(secrets=" in str(raised.value)


def test_what_provides_secrets_has_to_be_a_provider() -> None:
    with pytest.raises(hf.BadDefinition, match="secrets=dict is no provider of secrets"):
        hf.App("shop", secrets={"token": "plain"})  # type: ignore[arg-type]
