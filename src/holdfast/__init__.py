"""Durable workflows for Python: a crash, a deploy or a year of waiting changes nothing.

The names are loaded when they are first used, so that a command line that only lists runs does
not pay for the engine. Type checkers see plain imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.caching import StepCache
    from holdfast.checkpoint_stores import CheckpointStore, MemoryCheckpointStore
    from holdfast.checkpoints import Checkpoint, Checkpoints, HistoryCheckpoints, StateDiff
    from holdfast.client import Client, Listing, RunHandle
    from holdfast.codecs.keyring import KeyRing
    from holdfast.entities import EntityHandle
    from holdfast.errors import (
        AnswerRefused,
        BadCacheKey,
        BadDefinition,
        BadStatement,
        BlobMissing,
        BodyMeddled,
        CannotDecrypt,
        ChainError,
        ChildFailed,
        CompensationFailed,
        ConditionalError,
        ExecutionError,
        HistoryTooLong,
        HoldfastError,
        IllegalMove,
        InvalidArguments,
        InvalidCursor,
        InvalidDuration,
        InvalidExport,
        InvalidFilter,
        InvalidGraph,
        InvalidName,
        InvalidSchedule,
        InvalidStatus,
        InvalidTag,
        InvalidToken,
        InvalidValue,
        MapFailed,
        MergeConflict,
        MessageConflict,
        MissingExtra,
        MoveRefused,
        NonRetryable,
        NotInBody,
        NotInStep,
        OutcomeUnknown,
        ParallelError,
        PayloadTooLarge,
        ProcessDied,
        QueryFailed,
        ReplayMismatch,
        RetryAfter,
        RunCancelled,
        RunClosed,
        RunCompensationFailed,
        RunConflict,
        RunFailed,
        RunNotFound,
        RunTerminated,
        RunTimedOut,
        ScheduleConflict,
        ScheduleNotFound,
        SecretInState,
        SecretSerialisationError,
        StepFailed,
        StepOutcomeUnknown,
        StepTimedOut,
        StoreError,
        StoreFull,
        StoreMoved,
        StoreUnavailable,
        SyncInLoop,
        TaskError,
        TooDeep,
        TooManyAsks,
        UnknownKey,
        UnknownQuery,
        UnknownQueue,
        UnknownWorkflow,
        Unserialisable,
        UnserialisableResult,
        UnsupportedVersion,
        UpdateFailed,
        UpdateRejected,
        UpdateUnfinished,
        WorkflowNotFound,
    )
    from holdfast.executor import Executor
    from holdfast.factories import Factories, WorkflowFactory, WorkflowInfo
    from holdfast.fronts.function.children import Child, start_child
    from holdfast.fronts.function.completing import callback_url, complete_later, completion_token
    from holdfast.fronts.function.context import attempt, cancelled, idempotency_key
    from holdfast.fronts.function.continuing import continue_as_new
    from holdfast.fronts.function.entity import query, update
    from holdfast.fronts.function.heartbeats import heartbeat, last_heartbeat
    from holdfast.fronts.function.keeping import end_entity
    from holdfast.fronts.function.logs import log
    from holdfast.fronts.function.mapping import Item, map
    from holdfast.fronts.function.secrets import secret
    from holdfast.fronts.function.step import Step
    from holdfast.fronts.function.workflow import Bound, Workflow
    from holdfast.fronts.graph.chain import ChainResult, process_chain
    from holdfast.fronts.graph.conditional import process_conditional
    from holdfast.fronts.graph.config import ChainConfig, ParallelConfig, default_parallel_config
    from holdfast.fronts.graph.edges import (
        END,
        START,
        always,
        and_,
        key_equals,
        key_exists,
        not_,
        or_,
    )
    from holdfast.fronts.graph.parallel import ParallelResult, process_parallel
    from holdfast.fronts.graph.settings import CheckpointConfig, GraphConfig, default_graph_config
    from holdfast.fronts.graph.state import State
    from holdfast.graph_observing import EventStore, StoreObserver
    from holdfast.graph_streams import graph_events
    from holdfast.graphs import NodeFunc, StateGraph, new_graph_with_deps
    from holdfast.machine.combine import as_completed, wait
    from holdfast.machine.continuing import history_length, should_continue
    from holdfast.machine.handling import handle, handlers_finished
    from holdfast.machine.patches import deprecate_patch, get_version, patched
    from holdfast.machine.primitives import now, random, scheduled_at, sleep, uuid, wait_for
    from holdfast.machine.questions import ask
    from holdfast.machine.sagas import Saga, saga
    from holdfast.machine.signals import BoundMessage, Signal
    from holdfast.machine.talk import BoundUpdate, Query, Update
    from holdfast.model.annotations import LogLine, Progress
    from holdfast.model.cache import Cache, CachedStep
    from holdfast.model.diffing import Diff
    from holdfast.model.events import Event
    from holdfast.model.executed import ExecutionEvent
    from holdfast.model.labels import Labels
    from holdfast.model.limits import QueueState, Rate
    from holdfast.model.observed import ObservedEvent
    from holdfast.model.redacting import mask_secrets
    from holdfast.model.rekeying import Rekeyed
    from holdfast.model.retry import Retry
    from holdfast.model.run import Run
    from holdfast.model.schedules import Overlap, Schedule
    from holdfast.model.secrets import Secret
    from holdfast.model.settings import Settings
    from holdfast.model.waits import OpenQuestion
    from holdfast.ports.observer import Observer
    from holdfast.ports.secrets import SecretProvider
    from holdfast.ports.transaction import Transaction
    from holdfast.ports.witness import Witness
    from holdfast.providers import CallableSecrets, ChainSecrets, EnvSecrets, FileSecrets
    from holdfast.queues import Queues
    from holdfast.rekeying import rekey
    from holdfast.runtimes import Lifecycle, Runtime
    from holdfast.schedules import Schedules, ScheduleState, SlotState
    from holdfast.sinks.observers import LoggingObserver, MultiObserver, StreamingObserver
    from holdfast.sinks.opentelemetry import OpenTelemetryObserver
    from holdfast.sinks.prometheus import PrometheusObserver
    from holdfast.sync import (
        SyncClient,
        SyncEntityHandle,
        SyncQueues,
        SyncRunHandle,
        SyncSchedules,
        SyncStepCache,
        SyncUpdateHandle,
    )
    from holdfast.sync.checkpoints import SyncCheckpoints
    from holdfast.talking import QuestionList, UpdateHandle
    from holdfast.witnesses.psycopg import PsycopgWitness
    from holdfast.witnesses.sqlalchemy import SqlAlchemyWitness
    from holdfast.witnesses.sqlite import SqliteWitness

__version__ = "0.1.0"

__all__ = [
    "END",
    "START",
    "AnswerRefused",
    "App",
    "BadCacheKey",
    "BadDefinition",
    "BadStatement",
    "BlobMissing",
    "BodyMeddled",
    "Bound",
    "BoundMessage",
    "BoundUpdate",
    "Cache",
    "CachedStep",
    "CallableSecrets",
    "CannotDecrypt",
    "ChainConfig",
    "ChainError",
    "ChainResult",
    "ChainSecrets",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointStore",
    "Checkpoints",
    "Child",
    "ChildFailed",
    "Client",
    "CompensationFailed",
    "ConditionalError",
    "Diff",
    "EntityHandle",
    "EnvSecrets",
    "Event",
    "EventStore",
    "ExecutionError",
    "ExecutionEvent",
    "Executor",
    "Factories",
    "FileSecrets",
    "GraphConfig",
    "HistoryCheckpoints",
    "HistoryTooLong",
    "HoldfastError",
    "IllegalMove",
    "InvalidArguments",
    "InvalidCursor",
    "InvalidDuration",
    "InvalidExport",
    "InvalidFilter",
    "InvalidGraph",
    "InvalidName",
    "InvalidSchedule",
    "InvalidStatus",
    "InvalidTag",
    "InvalidToken",
    "InvalidValue",
    "Item",
    "KeyRing",
    "Labels",
    "Lifecycle",
    "Listing",
    "LogLine",
    "LoggingObserver",
    "MapFailed",
    "MemoryCheckpointStore",
    "MergeConflict",
    "MessageConflict",
    "MissingExtra",
    "MoveRefused",
    "MultiObserver",
    "NodeFunc",
    "NonRetryable",
    "NotInBody",
    "NotInStep",
    "ObservedEvent",
    "Observer",
    "OpenQuestion",
    "OpenTelemetryObserver",
    "OutcomeUnknown",
    "Overlap",
    "ParallelConfig",
    "ParallelError",
    "ParallelResult",
    "PayloadTooLarge",
    "ProcessDied",
    "Progress",
    "PrometheusObserver",
    "PsycopgWitness",
    "Query",
    "QueryFailed",
    "QuestionList",
    "QueueState",
    "Queues",
    "Rate",
    "Rekeyed",
    "ReplayMismatch",
    "Retry",
    "RetryAfter",
    "Run",
    "RunCancelled",
    "RunClosed",
    "RunCompensationFailed",
    "RunConflict",
    "RunFailed",
    "RunHandle",
    "RunNotFound",
    "RunTerminated",
    "RunTimedOut",
    "Runtime",
    "Saga",
    "Schedule",
    "ScheduleConflict",
    "ScheduleNotFound",
    "ScheduleState",
    "Schedules",
    "Secret",
    "SecretInState",
    "SecretProvider",
    "SecretSerialisationError",
    "Settings",
    "Signal",
    "SlotState",
    "SqlAlchemyWitness",
    "SqliteWitness",
    "State",
    "StateDiff",
    "StateGraph",
    "Step",
    "StepCache",
    "StepFailed",
    "StepOutcomeUnknown",
    "StepTimedOut",
    "StoreError",
    "StoreFull",
    "StoreMoved",
    "StoreObserver",
    "StoreUnavailable",
    "StreamingObserver",
    "SyncCheckpoints",
    "SyncClient",
    "SyncEntityHandle",
    "SyncInLoop",
    "SyncQueues",
    "SyncRunHandle",
    "SyncSchedules",
    "SyncStepCache",
    "SyncUpdateHandle",
    "TaskError",
    "TooDeep",
    "TooManyAsks",
    "Transaction",
    "UnknownKey",
    "UnknownQuery",
    "UnknownQueue",
    "UnknownWorkflow",
    "Unserialisable",
    "UnserialisableResult",
    "UnsupportedVersion",
    "Update",
    "UpdateFailed",
    "UpdateHandle",
    "UpdateRejected",
    "UpdateUnfinished",
    "Witness",
    "Workflow",
    "WorkflowFactory",
    "WorkflowInfo",
    "WorkflowNotFound",
    "always",
    "and_",
    "as_completed",
    "ask",
    "attempt",
    "callback_url",
    "cancelled",
    "complete_later",
    "completion_token",
    "continue_as_new",
    "default_graph_config",
    "default_parallel_config",
    "deprecate_patch",
    "end_entity",
    "get_version",
    "graph_events",
    "handle",
    "handlers_finished",
    "heartbeat",
    "history_length",
    "idempotency_key",
    "key_equals",
    "key_exists",
    "last_heartbeat",
    "log",
    "map",
    "mask_secrets",
    "new_graph_with_deps",
    "not_",
    "now",
    "or_",
    "patched",
    "process_chain",
    "process_conditional",
    "process_parallel",
    "query",
    "random",
    "rekey",
    "saga",
    "scheduled_at",
    "secret",
    "should_continue",
    "sleep",
    "start_child",
    "update",
    "uuid",
    "wait",
    "wait_for",
]

# Every public name that is not in this table is an error.
_MODULES = {
    "holdfast.checkpoint_stores": "CheckpointStore MemoryCheckpointStore",
    "holdfast.checkpoints": "Checkpoint Checkpoints HistoryCheckpoints StateDiff",
    "holdfast.graph_streams": "graph_events",
    "holdfast.graph_observing": "EventStore StoreObserver",
    "holdfast.model.executed": "ExecutionEvent",
    "holdfast.app": "App",
    "holdfast.client": "Client Listing RunHandle",
    "holdfast.codecs.keyring": "KeyRing",
    "holdfast.fronts.function.children": "Child start_child",
    "holdfast.fronts.function.completing": "callback_url complete_later completion_token",
    "holdfast.entities": "EntityHandle",
    "holdfast.fronts.function.context": "attempt cancelled idempotency_key",
    "holdfast.fronts.function.continuing": "continue_as_new",
    "holdfast.fronts.function.entity": "query update",
    "holdfast.fronts.function.heartbeats": "heartbeat last_heartbeat",
    "holdfast.fronts.function.keeping": "end_entity",
    "holdfast.fronts.function.logs": "log",
    "holdfast.fronts.function.mapping": "Item map",
    "holdfast.fronts.function.secrets": "secret",
    "holdfast.fronts.function.step": "Step",
    "holdfast.fronts.function.workflow": "Bound Workflow",
    "holdfast.fronts.graph.chain": "ChainResult process_chain",
    "holdfast.fronts.graph.conditional": "process_conditional",
    "holdfast.fronts.graph.config": "ChainConfig ParallelConfig default_parallel_config",
    "holdfast.fronts.graph.edges": "END START always and_ key_equals key_exists not_ or_",
    "holdfast.fronts.graph.parallel": "ParallelResult process_parallel",
    "holdfast.fronts.graph.state": "State",
    "holdfast.fronts.graph.settings": "CheckpointConfig GraphConfig default_graph_config",
    "holdfast.factories": "Factories WorkflowFactory WorkflowInfo",
    "holdfast.runtimes": "Lifecycle Runtime",
    "holdfast.executor": "Executor",
    "holdfast.graphs": "NodeFunc StateGraph new_graph_with_deps",
    "holdfast.machine.combine": "as_completed wait",
    "holdfast.machine.continuing": "history_length should_continue",
    "holdfast.machine.handling": "handle handlers_finished",
    "holdfast.machine.patches": "deprecate_patch get_version patched",
    "holdfast.machine.primitives": "now random scheduled_at sleep uuid wait_for",
    "holdfast.machine.questions": "ask",
    "holdfast.machine.sagas": "Saga saga",
    "holdfast.machine.signals": "BoundMessage Signal",
    "holdfast.machine.talk": "BoundUpdate Query Update",
    "holdfast.model.annotations": "LogLine Progress",
    "holdfast.caching": "StepCache",
    "holdfast.model.cache": "Cache CachedStep",
    "holdfast.model.diffing": "Diff",
    "holdfast.model.events": "Event",
    "holdfast.model.labels": "Labels",
    "holdfast.model.observed": "ObservedEvent",
    "holdfast.model.limits": "QueueState Rate",
    "holdfast.model.redacting": "mask_secrets",
    "holdfast.model.rekeying": "Rekeyed",
    "holdfast.model.retry": "Retry",
    "holdfast.model.run": "Run",
    "holdfast.model.schedules": "Overlap Schedule",
    "holdfast.model.secrets": "Secret",
    "holdfast.model.settings": "Settings",
    "holdfast.model.waits": "OpenQuestion",
    "holdfast.ports.observer": "Observer",
    "holdfast.ports.secrets": "SecretProvider",
    "holdfast.providers": "CallableSecrets ChainSecrets EnvSecrets FileSecrets",
    "holdfast.ports.transaction": "Transaction",
    "holdfast.rekeying": "rekey",
    "holdfast.schedules": "ScheduleState Schedules SlotState",
    "holdfast.sinks.observers": "LoggingObserver MultiObserver StreamingObserver",
    "holdfast.sinks.opentelemetry": "OpenTelemetryObserver",
    "holdfast.sinks.prometheus": "PrometheusObserver",
    "holdfast.ports.witness": "Witness",
    "holdfast.queues": "Queues",
    "holdfast.sync": (
        "SyncClient SyncEntityHandle SyncQueues SyncRunHandle SyncSchedules SyncStepCache "
        "SyncUpdateHandle"
    ),
    "holdfast.sync.checkpoints": "SyncCheckpoints",
    "holdfast.talking": "QuestionList UpdateHandle",
    "holdfast.witnesses.psycopg": "PsycopgWitness",
    "holdfast.witnesses.sqlalchemy": "SqlAlchemyWitness",
    "holdfast.witnesses.sqlite": "SqliteWitness",
}

if not TYPE_CHECKING:  # else a misspelt name would pass the type check

    def __getattr__(name: str) -> object:
        """Load a public name from the module that defines it."""
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
        owners = [module for module, names in _MODULES.items() if name in names.split()]
        found = getattr(import_module(*owners or ("holdfast.errors",)), name)
        globals()[name] = found
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
