"""Orders and reports: what they show, and what they keep to themselves."""

from __future__ import annotations

from holdfast.journal.entry import KIND_RECORDS, seal_entry
from holdfast.leases.orders import Renew, Report, Store


def test_what_is_stored_is_not_shown() -> None:
    """A payload never comes into a log line by way of an order."""
    entry = seal_entry(
        index=1,
        term=1,
        kind=KIND_RECORDS,
        timestamp=1,
        first_record=1,
        record_count=1,
        parts=[b"secret"],
        previous_chain=bytes(16),
    )

    assert "secret" not in repr(Store([entry], 1.0))
    assert "entries" not in repr(Store([entry], 1.0))


def test_a_report_is_never_a_failure_of_the_cache() -> None:
    """What fails on the medium is judged by the driver; only the cache's writer fails for good."""
    assert Report(order=Renew(1.0), began=0.0).failure is None
    assert Report.failure is None
