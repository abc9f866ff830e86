"""The contracts through which the driver acts, and the real ones that keep them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.journal.jobs import WriteResult
from holdfast.journal.writer import JournalWriter
from holdfast.leases.orders import Report
from holdfast.leases.worker import WorkerThread

if TYPE_CHECKING:
    from holdfast.leases.outlets import CacheWriter, Worker, WrittenReport


def test_the_real_ones_keep_the_contracts() -> None:
    """The journal's writer, the worker's thread, and what both report: mypy compares the types."""
    writer: type[CacheWriter] = JournalWriter
    worker: type[Worker] = WorkerThread
    reports: list[type[WrittenReport]] = [WriteResult, Report]

    assert all(callable(it.submit) for it in (writer, worker))
    assert all(hasattr(it, "failure") for it in reports)
