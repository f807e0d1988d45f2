"""The guard: while a body runs, what touches the world is refused and named.

Python tells audit hooks of every file, socket and process that is opened. Ours looks whether the
thread's running loop is a machine's; if not, it returns at once. If it is, the call raises
`GuardViolation`, and the violation sticks to the machine, whatever the body catches: the effect has
not happened, but the code would go another way in a replay.

Let through is what a body does not do by itself: imports, reading zone files and source lines, the
handlers of logging, debuggers, finalisers that happen to run now, and values crossing the line.

The hook cannot be taken out again, so it does nothing for machines whose `guard` is "off".
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Mapping
from pathlib import PurePath
from types import FrameType
from typing import Any

from holdfast.errors import GuardViolation
from holdfast.machine import handlers, tasks
from holdfast.machine.source import own_line
from holdfast.machine.spin import Spinner, running_loop

STEP = "Put it in a step: @app.step on a function that does it, and await that."
THREAD = "Put it in a step: a step that is a plain `def` runs on a thread."

_FILES = """
open fcntl.fcntl fcntl.flock fcntl.ioctl fcntl.lockf glob.glob mmap.__new__ os.chdir os.chflags
os.chmod os.chown os.fwalk os.getxattr os.link os.listdir os.listxattr os.lockf os.mkdir os.putenv
os.remove os.removexattr os.rename os.rmdir os.scandir os.setxattr os.symlink os.truncate
os.unsetenv os.utime os.walk pathlib.Path.glob pathlib.Path.rglob shutil.chown shutil.copyfile
shutil.copymode shutil.copystat shutil.copytree shutil.make_archive shutil.move shutil.rmtree
shutil.unpack_archive sqlite3.connect tempfile.mkdtemp tempfile.mkstemp
"""
_SOCKETS = """
ftplib.connect http.client.connect http.client.send imaplib.open poplib.connect smtplib.connect
socket.__new__ socket.bind socket.connect socket.getaddrinfo socket.gethostbyaddr
socket.gethostbyname socket.gethostname socket.getnameinfo socket.sendmsg socket.sendto
syslog.syslog urllib.Request webbrowser.open
"""
_PROCESSES = """
builtins.input os.exec os.fork os.forkpty os.kill os.killpg os.posix_spawn os.spawn os.startfile
os.system pty.spawn signal.pthread_kill subprocess.Popen
"""
_THREADS = "_thread.start_joinable_thread _thread.start_new_thread threading.Thread.start"

ADVICE: Mapping[str, str] = {
    **dict.fromkeys((_FILES + _SOCKETS + _PROCESSES).split(), STEP),
    **dict.fromkeys(_THREADS.split(), THREAD),
}
"""The audit events that are refused, and what to do instead."""

_NAMES = {"socket.__new__": "socket.socket", "mmap.__new__": "mmap.mmap"}
_SHOWN = 60

_STDLIB = str(PurePath(asyncio.__file__).parents[1])
_OWN_ERRANDS = (
    "<frozen importlib",
    str(PurePath(__file__).parent / "values"),
    *(
        str(PurePath(_STDLIB) / name)
        for name in ("bdb.py", "importlib/_bootstrap", "linecache.py", "logging/", "pdb.py",
                     "traceback.py", "warnings.py", "weakref.py", "zoneinfo/")
    ),
)  # fmt: skip
_INSIDE = frozenset(
    {
        Spinner.drain.__code__,
        tasks.unwind.__code__,
        tasks.unwind_generator.__code__,
        handlers.plainly.__code__,
    }
)
_frame: Callable[[int], FrameType] = getattr(sys, "_getframe")  # noqa: B009 - CPython's own


def hear(event: str, args: tuple[Any, ...], advice: Mapping[str, str] = ADVICE,
         running: Callable[[], object] = running_loop) -> None:  # fmt: skip
    """Refuse `event` if a body causes it. This is the audit hook: nearly always it just returns.

    It is called until the interpreter has gone, when the names of this module are no more.
    """
    if event not in advice:
        return
    loop = running()
    if loop is not None and isinstance(loop, Spinner):
        _judge(loop, event, args, advice[event])


def violate(loop: Spinner, call: str, hint: str, source: str) -> GuardViolation:
    """Have the violation stick to the machine, and return it to be raised."""
    error = GuardViolation(call=call, hint=hint, source=source)
    if running_loop() is loop and not loop.dead and loop.machine.violation is None:
        loop.machine.violation = error
    return error


def frames_of_body(frame: FrameType | None) -> list[FrameType]:
    """Return the frames from `frame` out to where the body was entered; none if it was not."""
    found: list[FrameType] = []
    while frame is not None:
        if frame.f_code in _INSIDE:
            return found
        found.append(frame)
        frame = frame.f_back
    return []


def _judge(loop: Spinner, event: str, args: tuple[Any, ...], hint: str) -> None:
    machine = getattr(loop, "machine", None)  # a machine that was closed has let go of its loop
    mode = "raise" if machine is None else machine.guard
    if mode == "off":
        return
    frames = frames_of_body(_frame(2))
    if not frames or any(map(_is_errand, frames)) or _is_zone_file(event, args):
        return
    call, source = _told(event, args), own_line(frames)
    if mode == "raise":
        raise violate(loop, call, hint, source)
    text = f"guard: {GuardViolation(call=call, hint=hint, source=source)}"
    if machine is not None and text not in machine.warnings:
        machine.warnings += (text,)


def _is_errand(frame: FrameType) -> bool:
    """Tell whether this is the interpreter's or a library's own doing, not the body's."""
    code = frame.f_code
    return code.co_name == "__del__" or code.co_filename.startswith(_OWN_ERRANDS)


def _is_zone_file(event: str, args: tuple[Any, ...]) -> bool:
    """Tell whether a zone file is read: zoneinfo does it in C, without a frame of its own."""
    zoneinfo = sys.modules.get("zoneinfo")
    if zoneinfo is None or event != "open" or args[1] not in ("r", "rb"):
        return False
    return str(args[0]).startswith(tuple(f"{folder}/" for folder in zoneinfo.TZPATH))


def _told(event: str, args: tuple[Any, ...]) -> str:
    """Name the call; its first argument only if that is a path, since others may be secret."""
    name = _NAMES.get(event, event)
    given = args[0] if args else None
    if event not in _FILES.split() or not isinstance(given, str | bytes | PurePath):
        return f"{name}()"
    path = str(given) if isinstance(given, PurePath) else given
    return f"{name}({path[:_SHOWN]!r})"
