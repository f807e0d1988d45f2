"""What the machine is, and how fast it is right now.

Every row carries both calibrations, so that a reader sees when a neighbour was busy.
"""

from __future__ import annotations

import os
import platform
import sqlite3
import sys
import tempfile
import time
from pathlib import Path


def cpu_ms() -> float:
    """Time a fixed loop of plain Python: lower is faster."""
    began = time.perf_counter()
    total = 0
    for i in range(200_000):
        total += i & 7
    return (time.perf_counter() - began) * 1e3


def syncs_s(seconds: float = 0.1) -> float:
    """Count 4 KiB overwrites, each synced to disk, in a second."""
    handle, path = tempfile.mkstemp(prefix="holdfast-bench-")
    try:
        block, count, began = b"x" * 4096, 0, time.perf_counter()
        while (spent := time.perf_counter() - began) < seconds:
            os.pwrite(handle, block, (count % 256) * 4096)
            _fdatasync(handle)
            count += 1
        return count / spent
    finally:
        os.close(handle)
        Path(path).unlink()


def speed() -> dict[str, float]:
    return {
        "cpu_ms": round(min(cpu_ms() for _ in range(3)), 2),
        "syncs_s": round(syncs_s()),
    }


def describe(postgres: str = "") -> dict[str, str]:
    """Say what was measured on, in words for the report; `postgres` is the server's version."""
    database = {"PostgreSQL": postgres} if postgres else {"SQLite": sqlite3.sqlite_version}
    return {
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": _memory(),
        "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        "file system": _file_system(Path(tempfile.gettempdir())),
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        **database,
    }


def rss_bytes() -> int:
    """Return the memory this process holds now (its peak where the system tells no more)."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


def _fdatasync(handle: int) -> None:
    getattr(os, "fdatasync", os.fsync)(handle)


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _memory() -> str:
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{size / 2**30:.0f} GiB"


def _file_system(path: Path) -> str:
    """Name the type of the file system the scratch databases are on, if the system tells."""
    try:
        mounts = [line.split()[1:3] for line in Path("/proc/mounts").read_text().splitlines()]
    except OSError:
        return "unknown"
    over = [(len(at), kind) for at, kind in mounts if path.resolve().is_relative_to(at)]
    return max(over)[1] if over else "unknown"
