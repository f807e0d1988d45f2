"""What the lint looks for in a body, why it matters, and what to write instead.

A rule that is a list of names is only data; the others are found by `walk`. The table in the
docs is drawn from here.
"""

from __future__ import annotations

from typing import NamedTuple


class Rule(NamedTuple):
    """One kind of finding. `name` stands in `# holdfast: allow(name)`."""

    name: str
    example: str
    why: str
    instead: str
    calls: str = ""
    """Dotted names, separated by spaces; one that ends in `.` stands for all that begin so."""


_REQUESTS = (
    "get post put patch delete head options request stream Session Client AsyncClient ClientSession"
)
_PATHS = (
    "open read_text read_bytes write_text write_bytes exists is_file is_dir iterdir glob rglob "
    "mkdir rmdir unlink rename replace touch stat"
)


def _all_of(owners: str, names: str) -> str:
    return " ".join(f"{owner}.{name}" for owner in owners.split() for name in names.split())


CLOCK = Rule(
    "clock",
    "`datetime.now()`, `time.time()`",
    "the clock shows another time in a replay",
    "`hf.now()`",
    "datetime.datetime.now datetime.datetime.utcnow datetime.datetime.today datetime.date.today "
    "time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter "
    "time.perf_counter_ns time.process_time time.process_time_ns",
)
SLEEP = Rule(
    "sleep",
    "`time.sleep(60)`",
    "it stops the whole worker, and waits again in every replay",
    "`await asyncio.sleep(60)`, a durable timer",
    "time.sleep",
)
RANDOM = Rule(
    "random",
    "`random.choice(...)`",
    "a replay would draw something else",
    "`hf.random()`, as in `hf.random().choice(...)`",
    "random. numpy.random.",
)
UUID = Rule(
    "uuid",
    "`uuid.uuid4()`",
    "a replay would make another id",
    "`hf.uuid()`",
    "uuid.uuid1 uuid.uuid4 uuid.uuid6 uuid.uuid7 uuid.getnode",
)
SECRETS = Rule(
    "secrets",
    "`secrets.token_hex()`, `os.urandom(16)`",
    "a replay would draw something else",
    "a step that draws it",
    "secrets. os.urandom os.getrandom",
)
REVEAL = Rule(
    "reveal",
    "`hf.secret(...)`, `hf.Secret(...)`",
    "what a body knows may be stored, and is looked at in every replay",
    '`hf.secret(...)` in a step that lists it: `@app.step(secrets=["token"])`',
    "holdfast.fronts.function.secrets.secret holdfast.secret holdfast.Secret "
    "holdfast.model.secrets.Secret holdfast.model.secrets.Secret.reveal",
)
ENVIRON = Rule(
    "environ",
    "`os.environ`, `os.getenv(...)`",
    "the next worker may run elsewhere",
    "an argument of the workflow, or a step that reads it",
    "os.environ os.getenv os.getcwd os.getpid os.cpu_count socket.gethostname platform.node "
    "pathlib.Path.cwd pathlib.Path.home",
)
THREADS = Rule(
    "threads",
    "`threading`, `asyncio.to_thread(...)`",
    "threads run in another order each time",
    "a step that is a plain `def` (it runs on a thread); `asyncio.Lock` for locks",
    "threading. _thread. concurrent.futures. multiprocessing. asyncio.to_thread "
    "asyncio.run_coroutine_threadsafe",
)
NETWORK = Rule(
    "network",
    "`requests.get(...)`, `httpx`, sockets",
    "the answer would be another in a replay, and the request made twice",
    "a step",
    _all_of("requests httpx aiohttp", _REQUESTS)
    + " urllib.request.urlopen urllib.request.urlretrieve socket.socket socket.create_connection "
    "socket.getaddrinfo socket.gethostbyname smtplib.SMTP smtplib.SMTP_SSL asyncio.open_connection "
    "asyncio.open_unix_connection asyncio.start_server asyncio.start_unix_server",
)  # fmt: skip
PROCESS = Rule(
    "process",
    "`subprocess.run(...)`, `os.system(...)`",
    "it would be started again in every replay",
    "a step",
    "subprocess.run subprocess.call subprocess.check_call subprocess.check_output subprocess.Popen "
    "os.system os.popen os.fork os.kill asyncio.create_subprocess_exec "
    "asyncio.create_subprocess_shell",
)
FILE = Rule(
    "file",
    "`open(...)`, `Path.read_text()`",
    "the file may hold something else in a replay",
    "a step that reads or writes it",
    "builtins.open io.open os.open os.listdir os.scandir os.walk os.remove os.unlink os.rename "
    "os.replace os.mkdir os.makedirs os.rmdir os.stat os.path.exists os.path.isfile os.path.isdir "
    "os.path.getsize os.path.getmtime shutil.copy shutil.copyfile shutil.copytree shutil.move "
    "shutil.rmtree tempfile. glob.glob glob.iglob sqlite3.connect "
    + _all_of("pathlib.Path", _PATHS),
)  # fmt: skip
PRINT = Rule(
    "print",
    "`print(...)`",
    "every replay prints it again",
    "a step that prints",
    "builtins.print builtins.input",
)
AS_COMPLETED = Rule(
    "as_completed",
    "`asyncio.as_completed(...)`",
    "its order is not fixed",
    "`hf.as_completed(...)`, which takes the same arguments",
    "asyncio.as_completed",
)
GLOBALS = Rule(
    "globals",
    "`global x`, appending to a module-level list",
    "other runs and the next process do not see the same value",
    "an argument, a result or a signal",
)
SETS = Rule(
    "sets",
    "`for x in {...}`, `list(set(...))`",
    "a set of texts has another order in each process",
    "`sorted(...)` around it",
)
UNAWAITED = Rule(
    "unawaited",
    "`charge(order)` without `await`",
    "the step never runs",
    "`await` before it, or `asyncio.create_task(...)` around it",
)
SWALLOWED = Rule(
    "swallowed",
    "`except BaseException: pass` around an `await`",
    "a cancel of the run is lost with it",
    "`except Exception:`, or `raise` at the end of the handler",
)
HIDDEN = Rule(
    "hidden",
    "`except Exception: pass` in a node of a graph",
    "the run goes on as if the node had worked, and nothing is tried again",
    "`except` with the error that you expect, let it raise, or return what says that it failed",
)

RULES = (
    CLOCK, SLEEP, RANDOM, UUID, SECRETS, REVEAL, ENVIRON, FILE, NETWORK, PROCESS, THREADS,
    AS_COMPLETED, SETS, GLOBALS, UNAWAITED, SWALLOWED, PRINT, HIDDEN,
)  # fmt: skip

_EXACT = {name: rule for rule in RULES for name in rule.calls.split() if not name.endswith(".")}
_BEGINNINGS = [(name, rule) for rule in RULES for name in rule.calls.split() if name.endswith(".")]


def rule_for(dotted: str) -> Rule | None:
    """Return the rule about a name such as `datetime.datetime.now`."""
    top, _, _ = dotted.partition(".")
    # A function that is imported by name tells its inner module: requests.api.get.
    found = _EXACT.get(dotted) or _EXACT.get(f"{top}.{dotted.rpartition('.')[2]}")
    begins = (rule for beginning, rule in _BEGINNINGS if dotted.startswith(beginning))
    return found or next(begins, None)
