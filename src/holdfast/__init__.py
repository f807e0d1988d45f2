"""Durable workflows for Python: a crash, a deploy or a year of waiting changes nothing."""

from __future__ import annotations

from holdfast.app import App
from holdfast.client import Client, Listing, RunHandle
from holdfast.errors import (
    BadDefinition,
    HoldfastError,
    IllegalMove,
    InvalidDuration,
    InvalidName,
    InvalidValue,
    NonRetryable,
    NotInBody,
    NotInStep,
    OutcomeUnknown,
    PayloadTooLarge,
    ReplayMismatch,
    RetryAfter,
    RunCancelled,
    RunClosed,
    RunConflict,
    RunFailed,
    RunNotFound,
    RunTerminated,
    RunTimedOut,
    StepFailed,
    StepTimedOut,
    StoreError,
    StoreUnavailable,
    UnknownWorkflow,
    Unserialisable,
    UnserialisableResult,
)
from holdfast.fronts.function.context import attempt, cancelled, idempotency_key
from holdfast.fronts.function.step import Step
from holdfast.fronts.function.workflow import Bound, Workflow
from holdfast.machine.combine import as_completed, wait
from holdfast.machine.primitives import now, random, sleep, uuid, wait_for
from holdfast.machine.signals import Signal
from holdfast.model.events import Event
from holdfast.model.retry import Retry
from holdfast.model.run import Run
from holdfast.model.settings import Settings

__version__ = "0.1.0"

__all__ = [
    "App",
    "BadDefinition",
    "Bound",
    "Client",
    "Event",
    "HoldfastError",
    "IllegalMove",
    "InvalidDuration",
    "InvalidName",
    "InvalidValue",
    "Listing",
    "NonRetryable",
    "NotInBody",
    "NotInStep",
    "OutcomeUnknown",
    "PayloadTooLarge",
    "ReplayMismatch",
    "Retry",
    "RetryAfter",
    "Run",
    "RunCancelled",
    "RunClosed",
    "RunConflict",
    "RunFailed",
    "RunHandle",
    "RunNotFound",
    "RunTerminated",
    "RunTimedOut",
    "Settings",
    "Signal",
    "Step",
    "StepFailed",
    "StepTimedOut",
    "StoreError",
    "StoreUnavailable",
    "UnknownWorkflow",
    "Unserialisable",
    "UnserialisableResult",
    "Workflow",
    "as_completed",
    "attempt",
    "cancelled",
    "idempotency_key",
    "now",
    "random",
    "sleep",
    "uuid",
    "wait",
    "wait_for",
]
