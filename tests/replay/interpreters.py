"""The other Pythons of this machine, made able to import holdfast."""

import fcntl
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MINORS = (11, 12, 13, 14)


def found() -> dict[str, Path]:
    """Return the newest interpreter of each minor version, by name."""
    here = f"3.{sys.version_info.minor}"
    pythons: dict[str, Path] = {}
    for minor in MINORS:
        name = f"3.{minor}"
        pyenv = sorted(
            Path.home().glob(f".pyenv/versions/{name}.*/bin/python"),
            key=lambda path: [int(n) for n in re.findall(r"\d+", path.parts[-3])],
        )
        candidates = [*pyenv[-1:], shutil.which(f"python{name}")]
        usable = [Path(path) for path in candidates if path and _runs(path, name)]
        if usable:
            pythons[name] = usable[0]
    return {**pythons, here: Path(sys.executable)}


def _runs(python: str | Path, name: str) -> bool:
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    shown = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return shown.stdout.strip() == name


def prepare(name: str, python: Path, cache: Path) -> str:
    """Install what holdfast needs beside that interpreter. Return why it could not be, or ""."""
    if python == Path(sys.executable):
        return ""
    place = cache / name
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if (place / "ready").exists():
            return ""
        command = [
            str(python),
            "-m",
            "pip",
            "install",
            "-q",
            "--target",
            str(place),
            "pydantic>=2.13",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
        (place / "ready").touch()
        return ""


def run(name: str, python: Path, cache: Path, *arguments: str) -> str:
    """Run `tests.replay.flows` there, with a random hash seed; return what it printed."""
    here = python == Path(sys.executable)
    path = [str(ROOT), str(ROOT / "src"), *([] if here else [str(cache / name)])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONHASHSEED": "random"}
    command = [str(python), "-m", "tests.replay.flows", *arguments]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"Python {name}: {done.stderr}"
    return done.stdout
