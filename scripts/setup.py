"""Make `.venv` ready: create it once, install the project and its tools, leave a stamp.

Only the standard library: this is the first thing that runs on a fresh machine.
"""

import fcntl
import importlib.util
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".ready"


def main() -> int:
    if importlib.util.find_spec("ensurepip") is None:
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
        print(f"This Python cannot create venvs. Run: apt-get install {package}", file=sys.stderr)
        return 1
    VENV.mkdir(exist_ok=True)
    with (VENV / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two verbs started at once set up one after the other
        return install()


def install() -> int:
    if is_ready():
        return 0
    python = VENV / "bin" / "python"
    if not (VENV / "bin" / "pip").exists():  # or a set-up before this one was cut short
        subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    print("Setting up .venv (once; about a minute) ...", flush=True)
    done = subprocess.run([*pip, "--editable", ".[dev]"], cwd=ROOT, check=False)
    if done.returncode != 0:
        print("pip could not install the project; see above.", file=sys.stderr)
        return done.returncode
    STAMP.touch()
    return 0


def is_ready() -> bool:
    project = ROOT / "pyproject.toml"
    return STAMP.exists() and STAMP.stat().st_mtime >= project.stat().st_mtime


if __name__ == "__main__":
    sys.exit(main())
