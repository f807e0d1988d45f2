"""Workflows: bound to their input for a client, called plainly by tests."""

from types import SimpleNamespace

import pytest

import holdfast.fronts.function.workflow as workflow_module
from holdfast.app import App
from holdfast.errors import BadDefinition, Unserialisable
from holdfast.fronts.function.workflow import Bound, Workflow


@pytest.fixture
def checkout() -> Workflow[[str, int], str]:
    app = App("shop")

    @app.step
    def pack(order: str) -> str:
        return f"packed {order}"

    @app.workflow
    async def checkout(order: str, copies: int = 1) -> str:
        return await pack(order) * copies

    return checkout


async def test_a_call_outside_a_body_is_a_plain_call(checkout) -> None:
    assert await checkout("42", copies=2) == "packed 42packed 42"


def test_bind_encodes_the_input(checkout) -> None:
    bound = checkout.bind("42", copies=2)
    assert isinstance(bound, Bound)
    assert bound.workflow is checkout
    assert checkout.signature.decode(bound.input) == (("42", 2), {})
    assert bound == checkout.bind(order="42", copies=2)


def test_an_input_that_does_not_fit_is_refused_at_bind(checkout) -> None:
    with pytest.raises(
        Unserialisable, match="arguments of checkout: copies: str would come back as an error"
    ):
        checkout.bind("42", copies="many")


def test_settings_of_a_call_are_checked(checkout) -> None:
    with pytest.raises(BadDefinition, match="on_parent_close='kill' is no policy"):
        checkout.options(on_parent_close="kill")
    settings = checkout.options(id="x", timeout=2, queue="far", priority=1).settings
    assert settings == ("x", "terminate", 2_000_000, "far", 1, None)
    assert repr(checkout.options()) == "<child call of checkout>"


async def test_plain_is_the_bare_function(checkout, monkeypatch) -> None:
    monkeypatch.setattr(workflow_module, "current", SimpleNamespace)
    assert await checkout.plain("42") == "packed 42"


def test_name_version_and_looks() -> None:
    @App("shop").workflow(name="nightly", version="2")
    async def close_day() -> None:
        """Close the day."""

    assert (close_day.name, close_day.version) == ("nightly", "2")
    assert (close_day.__name__, close_day.__doc__) == ("close_day", "Close the day.")
    assert repr(close_day) == "<workflow nightly>"


def test_the_version_is_empty_unless_given(checkout) -> None:
    assert checkout.version == ""


def test_a_version_is_text() -> None:
    async def checkout() -> None: ...

    with pytest.raises(BadDefinition) as refused:
        App("shop").workflow(version=2)(checkout)  # type: ignore[call-overload]
    assert str(refused.value) == 'Version 2 is no text. Write it as "...". [HF101]'
