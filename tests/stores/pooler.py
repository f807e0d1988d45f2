"""A real pgbouncer in transaction mode before the session's server.

It is the one on the path, or the one that `HOLDFAST_TEST_PGBOUNCER` names.
"""

import os
import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from holdfast.testing.postgres import UNPRIVILEGED, free_port
from tests.e2e.processes import until

VARIABLE = "HOLDFAST_TEST_PGBOUNCER"
OURS = (
    "extra_float_digits,statement_timeout,lock_timeout,idle_in_transaction_session_timeout,"
    "tcp_keepalives_idle,tcp_keepalives_interval,tcp_keepalives_count,tcp_user_timeout,jit,"
    "enable_seqscan,enable_hashjoin,enable_mergejoin,enable_bitmapscan,enable_sort,plan_cache_mode,"
    "default_transaction_isolation"
)
CONFIGURATION = """
[databases]
* = host={host} port={port} user={user}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {own}
auth_type = any
pool_mode = transaction
default_pool_size = 4
max_client_conn = 500
unix_socket_dir =
{more}
"""
WAYS: Mapping[str, Mapping[str, object]] = {
    "as it comes": {},
    "taking settings": {"ignore_startup_parameters": OURS},
    "with prepared statements": {"max_prepared_statements": 200},
    "without prepared statements": {
        "ignore_startup_parameters": OURS,
        "max_prepared_statements": 0,
    },
}
"""How it may be set up. Few server sessions, so that they change hands."""
PREPARES_FROM = (1, 21)


class Pooler:
    """A program, and what it can do."""

    def __init__(self, program: str) -> None:
        self._program = program
        told = subprocess.run([program, "--version"], capture_output=True, text=True, check=True)
        found = re.search(r"(\d+)\.(\d+)", told.stdout)
        assert found is not None
        self.version = int(found[1]), int(found[2])

    @contextmanager
    def before(self, url: str, way: str) -> Iterator[str]:
        """Lend the address of the database as it is reached through a pooler."""
        folder = Path(tempfile.mkdtemp(prefix="holdfast-pooler-"))
        up, own = urlsplit(url), free_port()
        options = {name: value for name, value in WAYS[way].items() if self._knows(name)}
        more = "\n".join(f"{name} = {value}" for name, value in options.items())
        (folder / "ini").write_text(
            CONFIGURATION.format(
                host=up.hostname, port=up.port or 5432, user=up.username, own=own, more=more
            )
        )
        folder.chmod(0o755)
        user = UNPRIVILEGED if os.geteuid() == 0 else None  # it refuses to be root
        process = subprocess.Popen([self._program, "-q", str(folder / "ini")], user=user)
        try:
            until(lambda: _listens(own), "the pooler listens")
            yield up._replace(netloc=f"{up.username}@127.0.0.1:{own}").geturl()
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(folder)

    def _knows(self, option: str) -> bool:
        return option != "max_prepared_statements" or self.version >= PREPARES_FROM


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def found() -> Pooler:
    """Return the pooler of this machine. Raises `FileNotFoundError`."""
    path = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])
    program = os.environ.get(VARIABLE) or shutil.which("pgbouncer", path=path)
    if program is None:
        raise FileNotFoundError(
            f"There is no pgbouncer to test with. Install one (on Debian `apt-get install "
            f"pgbouncer`), or name one of yours: {VARIABLE}=path."
        )
    return Pooler(program)
