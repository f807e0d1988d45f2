"""The public names: sorted, pinned, and loaded only when they are used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast.model.release import RELEASE

SOURCE = Path(holdfast.__file__).read_text("utf-8")

PINNED = """
AnswerRefused App BadCacheKey BadDefinition BadStatement BlobMissing BodyMeddled Bound
BoundMessage BoundUpdate Cache CachedStep CallableSecrets CannotDecrypt ChainConfig ChainError
ChainResult ChainSecrets Checkpoint CheckpointConfig CheckpointStore Checkpoints Child ChildFailed
Client CompensationFailed ConditionalError Diff END EntityHandle EnvSecrets Event EventStore
ExecutionError ExecutionEvent Executor Factories FileSecrets GraphConfig HistoryCheckpoints
HistoryTooLong HoldfastError IllegalMove InvalidArguments InvalidCursor InvalidDuration
InvalidExport InvalidFilter InvalidGraph InvalidName InvalidSchedule InvalidStatus InvalidTag
InvalidToken InvalidValue Item KeyRing Labels Lifecycle Listing LogLine LoggingObserver MapFailed
MemoryCheckpointStore MergeConflict MessageConflict MissingExtra MoveRefused MultiObserver
NodeFunc NonRetryable NotInBody NotInStep ObservedEvent Observer OpenQuestion
OpenTelemetryObserver OutcomeUnknown Overlap ParallelConfig ParallelError ParallelResult
PayloadTooLarge ProcessDied Progress PrometheusObserver PsycopgWitness Query QueryFailed
QuestionList QueueState Queues Rate Rekeyed ReplayMismatch Retry RetryAfter Run RunCancelled
RunClosed RunCompensationFailed RunConflict RunFailed RunHandle RunNotFound RunTerminated
RunTimedOut Runtime START Saga Schedule ScheduleConflict ScheduleNotFound ScheduleState Schedules
Secret SecretInState SecretProvider SecretSerialisationError Settings Signal SlotState
SqlAlchemyWitness SqliteWitness State StateDiff StateGraph Step StepCache StepFailed
StepOutcomeUnknown StepTimedOut StoreError StoreFull StoreMoved StoreObserver StoreUnavailable
StreamingObserver SyncCheckpoints SyncClient SyncEntityHandle SyncInLoop SyncQueues SyncRunHandle
SyncSchedules SyncStepCache SyncUpdateHandle TaskError TooDeep TooManyAsks Transaction UnknownKey
UnknownQuery UnknownQueue UnknownWorkflow Unserialisable UnserialisableResult UnsupportedVersion
Update UpdateFailed UpdateHandle UpdateRejected UpdateUnfinished Witness Workflow WorkflowFactory
WorkflowInfo WorkflowNotFound always and_ as_completed ask attempt callback_url cancelled
complete_later completion_token continue_as_new default_graph_config default_parallel_config
deprecate_patch end_entity get_version graph_events handle handlers_finished heartbeat
history_length idempotency_key key_equals key_exists last_heartbeat log map mask_secrets
new_graph_with_deps not_ now or_ patched process_chain process_conditional process_parallel query
random rekey saga scheduled_at secret should_continue sleep start_child update uuid wait wait_for
"""
NAMES = PINNED.split()


def imported_for_type_checkers() -> dict[str, str]:
    """Each name under TYPE_CHECKING, with the module it is imported from."""
    (block,) = [node for node in ast.parse(SOURCE).body if isinstance(node, ast.If)][:1]
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def test_the_public_names_are_these_and_sorted() -> None:
    assert sorted(holdfast.__all__) == NAMES  # ruff keeps the list in its own order
    assert sorted(NAMES) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_name_is_what_the_type_checkers_see(name: str) -> None:
    module = __import__(imported_for_type_checkers()[name], fromlist=[name])
    assert getattr(holdfast, name) is getattr(module, name)
    assert name in dir(holdfast)


def test_type_checkers_see_no_name_that_is_not_public() -> None:
    assert sorted(imported_for_type_checkers()) == NAMES


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'holdfast' has no attribute 'Retri'"):
        holdfast.Retri  # type: ignore[attr-defined]  # noqa: B018


def test_importing_the_package_loads_neither_the_engine_nor_asyncio() -> None:
    code = "import sys, holdfast; print(*sorted(m for m in sys.modules if 'holdfast' in m), "
    code += "'asyncio' in sys.modules)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["holdfast", "False"]


def test_the_release_is_said_once() -> None:
    """In the package, for people; in the model, for workers that must not load the package."""
    assert holdfast.__version__ == RELEASE
