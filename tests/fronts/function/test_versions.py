"""Several versions of a workflow side by side: which one runs what."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.app import App
from holdfast.errors import BadDefinition


async def body() -> None:
    return None


def shop(*versions: str) -> App:
    """Return an app with these versions of `order`, defined in this order."""
    app = App("shop")
    for version in versions:
        app.workflow(name="order", version=version)(body)
    return app


RUNS = [
    # defined, started with, run by
    (("",), "", ""),
    (("",), "1", ""),
    (("1", "2"), "1", "1"),
    (("1", "2"), "2", "2"),
    (("1", "2"), "", "2"),
    (("2", "1"), "", "1"),
    (("", "2"), "", ""),
    (("", "2"), "1", ""),
    (("", "2"), "2", "2"),
    (("1", "2"), "3", None),
    (("1",), "2", None),
]


@pytest.mark.parametrize(("defined", "version", "runs"), RUNS)
def test_a_run_is_run_by(defined: tuple[str, ...], version: str, runs: str | None) -> None:
    found = shop(*defined).versions.of_run("order", version)
    assert (found and found.version) == runs


@pytest.mark.parametrize(("defined", "version", "runs"), RUNS)
def test_a_worker_claims_what_it_can_run(
    defined: tuple[str, ...], version: str, runs: str | None
) -> None:
    claims = shop(*defined).versions.claims()
    assert ("order" in claims or f"order/{version}" in claims) == (runs is not None)


def test_new_runs_start_on_what_was_defined_last() -> None:
    app = shop("2", "1")
    assert app.workflows["order"].version == "1"
    assert [each.version for each in app.versions] == ["2", "1"]


def test_a_name_and_version_are_taken_once() -> None:
    app = shop("1", "2")
    with pytest.raises(BadDefinition, match="already has a workflow 'order' of version '2': body"):
        app.workflow(name="order", version="2")(body)
    with pytest.raises(BadDefinition, match="already has a workflow 'order'"):
        app.step(name="order")(body)


async def same(n: int) -> int:
    # A line of its own.
    return n + 1


def shape(function: Callable[..., Any], **options: Any) -> bytes:
    return App("shop").workflow(name="order", **options)(function).shape


def variants() -> dict[str, Callable[..., Any]]:
    app = App("steps")

    @app.step
    async def one() -> int:
        return 1

    @app.step(name="another")
    async def other() -> int:
        return 1

    step = one

    async def first(n: int) -> int:
        return await step()

    async def text(n: int) -> int:
        return await step() + 0

    async def parameter(n: str) -> int:
        return await step()

    async def result(n: int) -> str:
        return str(await step())

    def renamed() -> Callable[..., Any]:
        step = other

        async def first(n: int) -> int:
            return await step()

        return first

    async def helped(n: int) -> int:
        return await first(n)

    async def helped_otherwise(n: int) -> int:
        return await text(n)

    return {
        "first": first,
        "text": text,
        "parameter": parameter,
        "result": result,
        "renamed": renamed(),
        "helped": helped,
        "helped otherwise": helped_otherwise,
    }


def test_the_shape_changes_with_the_code_its_helpers_its_steps_and_its_types() -> None:
    shapes = {name: shape(function) for name, function in variants().items()}
    assert len(set(shapes.values())) == len(shapes)
    assert {len(each) for each in shapes.values()} == {8}


def test_indentation_and_blank_lines_do_not_count() -> None:
    here = shape(same)
    scope: dict[str, Any] = {"__name__": __name__}
    code = "async def same(n: int) -> int:\n\n  # A line of its own.\n\n  return n + 1\n"
    exec(compile(code, "<plain>", "exec"), scope)
    import linecache

    linecache.cache["<plain>"] = (len(code), None, code.splitlines(True), "<plain>")
    assert shape(scope["same"]) == here


def test_code_without_a_source_has_a_shape() -> None:
    scope: dict[str, Any] = {"__name__": __name__}
    exec("async def order(n: int) -> int:\n    return abs(n)\n", scope)
    exec("async def other(n: int) -> int:\n    return round(n)\n", scope)
    assert shape(scope["order"]) != shape(scope["other"])
