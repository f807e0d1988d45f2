"""Finding the app a person named: `module:app`, `module`, `path/file.py` or `path/file.py:app`."""

from __future__ import annotations

import sys
import traceback
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from holdfast.cli.failures import OURS
from holdfast.cli.telling import Refused

if TYPE_CHECKING:
    from holdfast.app import App

HINT = "Name it as module:app or path/file.py:app, with --app or HOLDFAST_APP."


def load_app(name: str) -> App:
    """Import the app's module and return the app. Raises `Refused`."""
    place, _, attribute = name.partition(":")
    module = _imported(place)
    return _named(module, attribute) if attribute else _only(module, place)


def _named(module: ModuleType, attribute: str) -> App:
    from holdfast.app import App

    found = getattr(module, attribute, None)
    if not isinstance(found, App):
        is_there = f"is {found!r}" if found is not None else "is not there"
        raise Refused(f"No app {attribute!r} in {module.__name__}: it {is_there}. {HINT}")
    return found


def _only(module: ModuleType, place: str) -> App:
    from holdfast.app import App

    apps = {name: value for name, value in vars(module).items() if isinstance(value, App)}
    distinct = list({id(app): app for app in apps.values()}.values())
    if len(distinct) == 1:
        return distinct[0]
    if not distinct:
        raise Refused(f"No app in {place}. Define one there: app = hf.App('shop'). {HINT}")
    raise Refused(f"Several apps in {place}: {', '.join(sorted(apps))}. Say which: {place}:NAME.")


def _imported(place: str) -> ModuleType:
    is_file = place.endswith(".py") or "/" in place
    if is_file and not Path(place).is_file():
        raise Refused(f"There is no file {place!r}. {HINT}")
    try:
        return _from_file(Path(place).resolve()) if is_file else _from_name(place)
    except Refused:
        raise
    except ModuleNotFoundError as error:
        if is_file or error.name not in (place, place.partition(".")[0]):
            raise _broken(place, error) from error
        raise Refused(f"No module named {place!r} from here. {HINT}") from error
    except (Exception, SystemExit) as error:  # a script that ends when it is imported
        raise _broken(place, error) from error


def _from_name(place: str) -> ModuleType:
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    return import_module(place)


def _from_file(path: Path) -> ModuleType:
    folder = str(path.parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise Refused(f"{str(path)!r} is no Python file. {HINT}")
    module = module_from_spec(spec)
    # Dataclasses and typing look their module up by name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _broken(place: str, error: BaseException) -> Refused:
    """Return the user's own traceback as the message: the mistake is in their file."""
    stack = traceback.extract_tb(error.__traceback__)
    own = [f for f in stack if not f.filename.startswith((OURS, "<frozen"))]
    own = [f for f in own if "/importlib/" not in f.filename]
    text = "".join(
        (*traceback.format_list(own), *traceback.format_exception_only(type(error), error))
    )
    return Refused(f"{place} cannot be imported:\n{text.rstrip()}")
