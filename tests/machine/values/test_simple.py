"""Schemas that are written down are the ones pydantic would build."""

import subprocess
import sys
import textwrap
from typing import Annotated, Any, Literal, Optional

import pytest
from pydantic import BaseModel, TypeAdapter
from pydantic import Field as Rule

from holdfast.machine.values.core import Core, Field, core_of, core_of_arguments
from holdfast.machine.values.schema import canonical, json_schema_of
from holdfast.machine.values.signature import Signature
from holdfast.machine.values.simple import simple_json_schema, simple_schema


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


@pytest.mark.parametrize("annotation", SIMPLE, ids=str)
def test_it_fits_as_it_is(annotation: Any) -> None:
    """Nothing in it would be changed to make it fit for the line, but for named arguments' own."""
    core = core_of(annotation)
    arguments, _ = core_of_arguments({"a": Field(annotation, True), "b": Field(int, False)})
    for each in (core, arguments):
        assert each._fit == Core(each.source, is_simple=False)._fit


@pytest.mark.parametrize("annotation", OTHERS, ids=str)
def test_everything_else_is_left_to_pydantic(annotation: Any) -> None:
    assert simple_schema(annotation) is None


def test_a_type_without_a_hash_is_left_to_pydantic() -> None:
    class Unhashable(type):
        __hash__ = None  # type: ignore[assignment]

    assert simple_schema(Unhashable("Odd", (), {})) is None


LIST: Any = list
DICT: Any = dict
OPTIONAL: Any = Optional
ATOMS: list[Any] = [bool, bytes, float, int, str, None, Any, object]


def grown(annotations: list[Any]) -> list[Any]:
    """Return these, and what can be made of them in one more step."""
    return [
        *annotations,
        *(LIST[each] for each in annotations),
        *(DICT[str, each] for each in annotations),
        *(OPTIONAL[each] for each in annotations),
    ]


def test_digests_are_made_of_what_pydantic_says_of_a_type() -> None:
    """Answers carry them: they must stay what they are, whoever writes them down."""
    for annotation in grown(grown(ATOMS)):
        core = core_of(annotation)
        described = simple_json_schema(core.source)
        assert described is not None, annotation
        assert canonical(described) == canonical(json_schema_of(core)), annotation


@pytest.mark.parametrize("required", [True, False])
def test_digests_are_made_of_what_pydantic_says_of_arguments(required: bool) -> None:
    nested = grown(ATOMS)
    for first, second in zip(nested, reversed(nested), strict=True):
        fields = {"a": Field(first, required), "title": Field(second, required=True)}
        core, _ = core_of_arguments(fields)
        described = simple_json_schema(core.source)
        assert described is not None, fields
        assert canonical(described) == canonical(json_schema_of(core)), fields
    core, _ = core_of_arguments({"x": Field(int, required)})
    assert canonical(simple_json_schema(core.source)) == canonical(json_schema_of(core))
    core, _ = core_of_arguments({})
    assert canonical(simple_json_schema(core.source)) == canonical(json_schema_of(core))


@pytest.mark.parametrize(
    "annotation",
    [Model, list[Model], Annotated[int, Rule(gt=0)], dict[int, str], int | str, tuple[int, ...]],
    ids=str,
)
def test_what_has_rules_of_its_own_is_described_by_pydantic(annotation: Any) -> None:
    assert simple_json_schema(core_of(annotation).source) is None
    core, _ = core_of_arguments({"x": Field(annotation, required=True)})
    assert simple_json_schema(core.source) is None


def test_a_builtin_that_names_something_else_here_is_looked_up() -> None:
    async def take(n: "int") -> "None": ...

    plain, renamed = Signature.of(take), Signature.of(take, names={"int": str})
    assert plain.encode((1,), {}) == b'{"n":1}'
    assert renamed.encode(("x",), {}) == b'{"n":"x"}'


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
