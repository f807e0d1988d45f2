"""The worker: claims runs, drives their bodies, runs their steps."""

from holdfast.hosts.worker.worker import Worker

__all__ = ["Worker"]
