"""Durable workflows for Python: a crash, a deploy or a year of waiting changes nothing.

The names are loaded when they are first used, so that a command line that only lists runs does
not pay for the engine. Type checkers see plain imports.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from holdfast.app import App
    from holdfast.client import Client, Listing, RunHandle
    from holdfast.codecs.keyring import KeyRing
    from holdfast.entities import EntityHandle
    from holdfast.errors import (
        AnswerRefused,
        BadDefinition,
        BadStatement,
        BodyMeddled,
        CannotDecrypt,
        ChildFailed,
        CompensationFailed,
        HistoryTooLong,
        HoldfastError,
        IllegalMove,
        InvalidArguments,
        InvalidCursor,
        InvalidDuration,
        InvalidExport,
        InvalidFilter,
        InvalidName,
        InvalidSchedule,
        InvalidTag,
        InvalidToken,
        InvalidValue,
        MapFailed,
        MessageConflict,
        MissingExtra,
        MoveRefused,
        NonRetryable,
        NotInBody,
        NotInStep,
        OutcomeUnknown,
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
        SecretSerialisationError,
        StepFailed,
        StepOutcomeUnknown,
        StepTimedOut,
        StoreError,
        StoreFull,
        StoreMoved,
        StoreUnavailable,
        SyncInLoop,
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
    )
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
    from holdfast.model.diffing import Diff
    from holdfast.model.events import Event
    from holdfast.model.labels import Labels
    from holdfast.model.limits import QueueState, Rate
    from holdfast.model.observed import ObservedEvent
    from holdfast.model.redacting import mask_secrets
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
        SyncUpdateHandle,
    )
    from holdfast.talking import QuestionList, UpdateHandle
    from holdfast.witnesses.psycopg import PsycopgWitness
    from holdfast.witnesses.sqlalchemy import SqlAlchemyWitness
    from holdfast.witnesses.sqlite import SqliteWitness

__version__ = "0.1.0"

__all__ = [
    "AnswerRefused",
    "App",
    "BadDefinition",
    "BadStatement",
    "BodyMeddled",
    "Bound",
    "BoundMessage",
    "BoundUpdate",
    "CallableSecrets",
    "CannotDecrypt",
    "ChainSecrets",
    "Child",
    "ChildFailed",
    "Client",
    "CompensationFailed",
    "Diff",
    "EntityHandle",
    "EnvSecrets",
    "Event",
    "FileSecrets",
    "HistoryTooLong",
    "HoldfastError",
    "IllegalMove",
    "InvalidArguments",
    "InvalidCursor",
    "InvalidDuration",
    "InvalidExport",
    "InvalidFilter",
    "InvalidName",
    "InvalidSchedule",
    "InvalidTag",
    "InvalidToken",
    "InvalidValue",
    "Item",
    "KeyRing",
    "Labels",
    "Listing",
    "LogLine",
    "LoggingObserver",
    "MapFailed",
    "MessageConflict",
    "MissingExtra",
    "MoveRefused",
    "MultiObserver",
    "NonRetryable",
    "NotInBody",
    "NotInStep",
    "ObservedEvent",
    "Observer",
    "OpenQuestion",
    "OpenTelemetryObserver",
    "OutcomeUnknown",
    "Overlap",
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
    "Saga",
    "Schedule",
    "ScheduleConflict",
    "ScheduleNotFound",
    "ScheduleState",
    "Schedules",
    "Secret",
    "SecretProvider",
    "SecretSerialisationError",
    "Settings",
    "Signal",
    "SlotState",
    "SqlAlchemyWitness",
    "SqliteWitness",
    "Step",
    "StepFailed",
    "StepOutcomeUnknown",
    "StepTimedOut",
    "StoreError",
    "StoreFull",
    "StoreMoved",
    "StoreUnavailable",
    "StreamingObserver",
    "SyncClient",
    "SyncEntityHandle",
    "SyncInLoop",
    "SyncQueues",
    "SyncRunHandle",
    "SyncSchedules",
    "SyncUpdateHandle",
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
    "as_completed",
    "ask",
    "attempt",
    "callback_url",
    "cancelled",
    "complete_later",
    "completion_token",
    "continue_as_new",
    "deprecate_patch",
    "end_entity",
    "get_version",
    "handle",
    "handlers_finished",
    "heartbeat",
    "history_length",
    "idempotency_key",
    "last_heartbeat",
    "log",
    "map",
    "mask_secrets",
    "now",
    "patched",
    "query",
    "random",
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
    "holdfast.model.diffing": "Diff",
    "holdfast.model.events": "Event",
    "holdfast.model.labels": "Labels",
    "holdfast.model.observed": "ObservedEvent",
    "holdfast.model.limits": "QueueState Rate",
    "holdfast.model.redacting": "mask_secrets",
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
    "holdfast.schedules": "ScheduleState Schedules SlotState",
    "holdfast.sinks.observers": "LoggingObserver MultiObserver StreamingObserver",
    "holdfast.sinks.opentelemetry": "OpenTelemetryObserver",
    "holdfast.sinks.prometheus": "PrometheusObserver",
    "holdfast.ports.witness": "Witness",
    "holdfast.queues": "Queues",
    "holdfast.sync": (
        "SyncClient SyncEntityHandle SyncQueues SyncRunHandle SyncSchedules SyncUpdateHandle"
    ),
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
