"""A real S3 server for the tests that ask for one: SeaweedFS, from a wheel."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.testing.postgres import folder_in_memory

PATIENCE = 60.0


class S3Server:
    """A server with one bucket, that can be killed and started again on the same data."""

    bucket = "runs"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = _free_ports(4)
        self._process: subprocess.Popen[bytes] | None = None
        self.endpoint = f"http://127.0.0.1:{self._ports[0]}"

    def url(self, prefix: str = "blobs") -> str:
        """Where blobs go."""
        return f"s3://{self.bucket}/{prefix}?endpoint={self.endpoint}"

    def start(self) -> None:
        """Start it, and wait until it takes and gives objects."""
        s3, master, volume, filer = self._ports
        program = Path(sys.executable).with_name("weed")
        self._process = subprocess.Popen(
            [program, "server", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-dir={self._folder}",
             "-s3", f"-s3.port={s3}", f"-master.port={master}", f"-volume.port={volume}",
             f"-filer.port={filer}", "-s3.port.iceberg=0", "-s3.port.lance=0",
             "-master.telemetry=false",
             "-master.volumeSizeLimitMB=64", "-volume.max=8"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        deadline = time.monotonic() + PATIENCE
        while not self._answers():
            assert time.monotonic() < deadline, "the S3 server does not answer"
            assert self._process.poll() is None, "the S3 server has ended"

    def kill(self) -> None:
        """End it as a power cut does."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def _answers(self) -> bool:
        try:
            self._ask("PUT", f"/{self.bucket}")
        except urllib.error.HTTPError as error:
            if error.code != 409:  # the bucket is there already
                return False
        except OSError:
            return False
        try:
            self._ask("PUT", f"/{self.bucket}/probe", b"1")
            return self._ask("GET", f"/{self.bucket}/probe") == b"1"
        except OSError:
            return False

    def _ask(self, method: str, path: str, data: bytes | None = None) -> bytes:
        asked = urllib.request.Request(f"{self.endpoint}{path}", data=data, method=method)
        with urllib.request.urlopen(asked, timeout=5) as reply:
            told: bytes = reply.read()
            return told


def _free_ports(count: int) -> list[int]:
    """Ports that nobody uses; the server also takes each of them plus 10,000."""
    found: list[int] = []
    while len(found) < count:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port = one.getsockname()[1]
            with contextlib.suppress(OSError, OverflowError):
                other.bind(("127.0.0.1", port + 10_000))
                if port not in found:
                    found.append(port)
    return found


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    """One server for a process's tests; whoever kills it starts it again."""
    folder = folder_in_memory()
    server = S3Server(folder)
    server.start()
    yield server
    server.kill()
    shutil.rmtree(folder, ignore_errors=True)
