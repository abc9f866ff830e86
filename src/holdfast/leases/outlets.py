"""
Through what the driver's decisions leave it: the medium's worker, and the writer of the cache.

Contracts only, so that the driver runs over threads and in a simulator alike.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import JournalFailedError
from holdfast.journal.jobs import WriteJob
from holdfast.leases.orders import Order


class Worker(Protocol):
    """Who performs orders; `worker.WorkerThread` is the real one."""

    def submit(self, order: Order) -> None:
        """Have this done; its report comes through `LeasedDriver.stored`."""
        ...


class CacheWriter(Protocol):
    """The journal's writer: puts into the cache what is submitted, in order."""

    def submit(self, job: WriteJob) -> None:
        """Queue a job."""
        ...


class WrittenReport(Protocol):
    """What the cache's writer says; a `Report` of the worker says as much and more."""

    @property
    def failure(self) -> JournalFailedError | None:
        """Why nothing more will be kept; None if all is well."""
        ...
