"""The App: a registry, an object, and cheap to make."""

import re
import subprocess
import sys

import pytest

from holdfast.app import App
from holdfast.errors import BadDefinition


async def fetch(url: str) -> str:
    return url


async def store(url: str) -> str:
    return url


def test_steps_and_workflows_are_listed_by_name() -> None:
    app = App("shop")
    step, workflow = app.step(fetch), app.workflow(name="flow")(store)
    assert (app.steps, app.workflows) == ({"fetch": step}, {"flow": workflow})


def test_the_lists_are_for_reading() -> None:
    with pytest.raises(TypeError):
        App("shop").steps["fetch"] = fetch  # type: ignore[index]


@pytest.mark.parametrize(
    ("first", "second"),
    [("step", "step"), ("workflow", "workflow"), ("step", "workflow"), ("workflow", "step")],
)
def test_a_name_is_taken_once_in_an_app(first, second) -> None:
    app = App("shop")
    getattr(app, first)(name="fetch")(store)
    with pytest.raises(BadDefinition) as refused:
        getattr(app, second)(fetch)
    said = re.sub(r"\([^()]*\.py:\d+\)", "(AT)", str(refused.value))
    assert said == (
        f"App 'shop' already has a {first} 'fetch': store (AT). "
        f'Give one of them another name with name="...". [HF101]'
    )
    assert len(app.steps) + len(app.workflows) == 1


def test_apps_know_nothing_of_each_other() -> None:
    one, two = App("shop"), App("shop")
    one.step(fetch)
    assert two.step(fetch) is two.steps["fetch"]
    assert one.steps["fetch"] is not two.steps["fetch"]


def test_name_and_namespace() -> None:
    app = App("shop")
    assert (app.name, app.namespace, repr(app)) == ("shop", "default", "<app shop>")
    assert App("shop", namespace="eu").namespace == "eu"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"name": ""}, "App name '' has 0 characters"),
        ({"name": "shop", "namespace": "eu/west"}, "Namespace 'eu/west' contains '/'"),
    ],
)
def test_bad_names_of_an_app(arguments, said) -> None:
    with pytest.raises(BadDefinition, match=re.escape(said)):
        App(**arguments)


DEFINE = """
import sys
from holdfast.app import App

app = App("shop")

class Declined(Exception):
    def __init__(self, code: str) -> None:
        self.code = code

@app.step(raises=[Declined])
async def charge(order: str) -> int: ...

@app.workflow
async def checkout(order: str) -> int: ...

print([name for name in ("pydantic", "sqlite3", "rich", "click") if name in sys.modules])
"""


def test_defining_an_app_loads_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", DEFINE], capture_output=True, text=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
