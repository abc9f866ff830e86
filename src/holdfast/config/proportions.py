"""
Which settings may not be larger than which, within a section and across them.

What a class says about its own fields it says itself, when it is made; here are those relations
that concern two packages, or without which a limit could never be reached.
"""

from __future__ import annotations

from typing import Final

from holdfast.config.catalogue import CATALOGUE
from holdfast.config.draft import Draft

NO_MORE_THAN: Final = (
    ("broker.prefetch_default", "broker.prefetch_max"),
    ("broker.dispatch_mark_step_min", "broker.dispatch_mark_step_max"),
    ("broker.transaction_bytes_max", "broker.transactions_bytes_max"),
    ("broker.waiting_bytes_max", "broker.waiting_total_bytes_max"),
    ("broker.batch_bytes_max", "server.uncommitted_bytes_max"),
    ("server.connection_uncommitted_bytes_max", "server.uncommitted_bytes_max"),
    ("server.read_bytes_max", "server.incoming_bytes_max"),
    ("server.incoming_bytes_max", "server.incoming_total_bytes_max"),
    ("server.output_high_bytes", "server.output_bytes_max"),
    ("server.connection_backlog_bytes_max", "server.backlog_bytes_max"),
    ("stomp.command_bytes_max", "stomp.header_block_bytes_max"),
    ("stomp.header_line_bytes_max", "stomp.header_block_bytes_max"),
    ("stomp.header_cache_block_bytes_max", "stomp.header_cache_bytes_max"),
    ("links.dial_seconds_min", "links.dial_seconds_max"),
    ("links.strangers_per_source_max", "links.strangers_max"),
    ("links.refusal_log_seconds_min", "links.refusal_log_seconds_max"),
    ("links.watch_seconds", "replication.election_seconds_min"),
    ("links.ping_seconds", "links.silence_seconds"),
)
"""The first of each pair is at most as large as the second."""


def check_proportions(check: Draft) -> None:
    """Report each pair that does not fit."""
    for smaller, larger in NO_MORE_THAN:
        one, other = CATALOGUE[smaller], CATALOGUE[larger]
        value, most = check.value(smaller), check.value(larger)
        # Named is what the operator has set: that is what can be mended.
        told = f"{one.name}: {value:,} is more than {other.name}; allowed: {most:,} or less"
        if smaller not in check.origins:
            told = f"{other.name}: {most:,} is less than {one.name}; allowed: {value:,} or more"
        check.require(value <= most, f"{one.name} {other.name}", told)
