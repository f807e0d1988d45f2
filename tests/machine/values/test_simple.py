"""Schemas that are written down are the ones pydantic would build."""

import subprocess
import sys
import textwrap
from typing import Any, Literal, Optional

import pytest
from pydantic import BaseModel, TypeAdapter

from holdfast.machine.values.simple import simple_schema


class Model(BaseModel):
    x: int


SIMPLE: list[Any] = [
    None, type(None), bool, bytes, float, int, str, object, Any,
    list[int], dict[str, object], dict[int, list[str]], int | None, None | str,
    Optional[dict[str, Any]], list[float | None], dict[str, dict[str, bytes | None]],  # noqa: UP045
]  # fmt: skip

OTHERS: list[Any] = [
    Model, list[Model], int | str, int | str | None, Model | None, tuple[int, ...], set[str],
    list, dict, Literal[1], type("Own", (int,), {}),
]  # fmt: skip


@pytest.mark.parametrize("annotation", SIMPLE, ids=str)
def test_it_is_what_pydantic_builds(annotation: Any) -> None:
    assert simple_schema(annotation) == TypeAdapter(annotation).core_schema


@pytest.mark.parametrize("annotation", OTHERS, ids=str)
def test_everything_else_is_left_to_pydantic(annotation: Any) -> None:
    assert simple_schema(annotation) is None


def test_a_type_without_a_hash_is_left_to_pydantic() -> None:
    class Unhashable(type):
        __hash__ = None  # type: ignore[assignment]

    assert simple_schema(Unhashable("Odd", (), {})) is None


def test_simple_steps_never_look_for_plugins() -> None:
    """The search through every installed package costs more than to resume a run."""
    source = """
        import sys
        import holdfast as hf

        app = hf.App("plain")

        @app.step
        async def work(i: int, note: str | None = None) -> dict[str, object]:
            return {"i": i}

        @app.workflow
        async def flow(n: int) -> list[int]:
            return [n]

        for definition in (work, flow):
            definition.signature.schema
        assert "pydantic.plugin._loader" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(source)], check=True, timeout=60)
