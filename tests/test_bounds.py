"""
Each bound on what clients may take of memory and time is noticed to be missing.

What the simulator's ablations are to safeguards this is to bounds: one is switched off at a time,
by making it endless, and the test that is named beside it must fail, by what it looks at itself. A
new bound finds no place in these tables, and fails here, until it is put into one of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.protocols.stomp.settings import StompSettings
from holdfast.server.settings import ServerSettings
from holdfast.sessions import stomp_transactions
from holdfast.sessions.waiting_sends import WaitingSends

_NEVER_REACHED = 1 << 30
_BROKER = "tests/unit/broker/"
_SERVER = "tests/unit/server/"
_SESSIONS = "tests/unit/sessions/"
_STOMP = "tests/unit/protocols/stomp/"
_HEADS = f"{_STOMP}test_codec.py::test_the_first_octet_too_many_is_the_one_that_fails"

Bound = tuple[type | Any, str]
Failure = pytest.ExceptionInfo[BaseException]

NOTICED: dict[Bound, str] = {
    # What came from clients and is not done.
    (ServerSettings, "incoming_bytes_max"): (
        f"{_SERVER}test_connection.py"
        "::test_a_client_ahead_of_the_loop_is_not_read_before_it_is_served"
    ),
    (ServerSettings, "incoming_total_bytes_max"): (
        f"{_SERVER}test_reading.py::test_what_many_bring_together_is_bounded_and_all_of_it_served"
    ),
    (ServerSettings, "unfinished_bytes_max"): (
        f"{_SERVER}test_unfinished_frames.py::test_who_has_begun_the_largest_frame_is_closed"
    ),
    (ServerSettings, "unfinished_seconds_max"): (
        f"{_SERVER}test_standing_frames.py::test_one_that_comes_on_slowly_is_served"
    ),
    (ServerSettings, "held_bytes_max"): (
        f"{_SERVER}test_held_memory.py::test_who_makes_the_node_hold_the_most_is_closed"
    ),
    (ServerSettings, "connection_uncommitted_bytes_max"): (
        f"{_SERVER}test_connection.py::test_a_client_ahead_of_the_disk_is_not_read"
    ),
    (ServerSettings, "uncommitted_bytes_max"): (
        f"{_SERVER}test_loop.py::test_too_much_uncommitted_stops_reading"
    ),
    (ServerSettings, "connection_count_max"): (
        f"{_SERVER}test_idleness.py::test_what_was_turned_away_is_counted"
    ),
    (BrokerSettings, "waiting_total_bytes_max"): (
        f"{_SESSIONS}test_waiting_sends.py"
        "::test_persistent_sends_that_wait_behind_others_are_bounded_too"
    ),
    (BrokerSettings, "waiting_bytes_max"): (
        f"{_SESSIONS}test_waiting_sends.py::test_what_waits_is_bounded"
    ),
    (WaitingSends, "_share_block"): (
        f"{_SESSIONS}test_waiting_sends.py::test_what_waits_is_counted_with_its_headers"
    ),
    # What clients were not given yet.
    (ServerSettings, "received_bytes_max"): (
        f"{_SERVER}test_connection.py"
        "::test_receipts_of_all_clients_that_wait_for_a_commit_have_a_bound"
    ),
    (ServerSettings, "unsent_bytes_max"): (
        f"{_SERVER}test_connection.py::test_a_client_that_takes_no_answers_is_not_served"
    ),
    (ServerSettings, "output_bytes_max"): (
        f"{_SERVER}test_connection.py::test_room_is_what_the_socket_has_taken"
    ),
    (ServerSettings, "connection_backlog_bytes_max"): (
        f"{_SERVER}test_slow_consumers.py::test_one_connection_that_reads_nothing_is_closed"
    ),
    (ServerSettings, "backlog_bytes_max"): (
        f"{_SERVER}test_slow_consumers.py::test_of_many_the_worst_is_closed"
    ),
    (BrokerSettings, "topic_pending_bytes_max"): (
        f"{_SESSIONS}test_waiting_sends.py::test_a_slow_subscriber_holds_back_the_topics_producers"
    ),
    (BrokerSettings, "spread_bytes_max"): (
        f"{_SESSIONS}test_stomp_transactions.py::test_what_commits_publish_has_a_bound"
    ),
    (BrokerSettings, "recovery_bytes_max"): (
        "tests/unit/broker/test_recovering.py::test_all_of_it_takes_no_more_than_the_setting"
    ),
    # What is kept for clients.
    (BrokerSettings, "memory_bytes"): (
        f"{_SESSIONS}test_waiting_sends.py::test_only_who_fills_the_memory_waits"
    ),
    (BrokerSettings, "transaction_bytes_max"): (
        f"{_SESSIONS}test_stomp_transactions.py"
        "::test_a_transaction_that_was_refused_a_part_cannot_commit"
    ),
    (BrokerSettings, "transactions_bytes_max"): (
        f"{_SESSIONS}test_stomp_transactions.py::test_open_transactions_together_have_a_limit"
    ),
    (BrokerSettings, "transaction_operation_count_max"): (
        f"{_BROKER}serving/test_transactions.py::test_acknowledgements_count_too"
    ),
    (BrokerSettings, "transaction_destination_count_max"): (
        f"{_BROKER}serving/test_transactions.py::test_it_reaches_no_more_places_than_a_commit_can_look_at"
    ),
    (BrokerSettings, "transaction_count_max"): (
        f"{_SESSIONS}test_stomp_limits.py::test_one_open_transaction_too_many_is_refused"
    ),
    (BrokerSettings, "subscription_count_max"): (
        f"{_SESSIONS}test_stomp_limits.py::test_one_subscription_too_many_is_refused"
    ),
    (BrokerSettings, "subscriptions_count_max"): (
        f"{_SESSIONS}test_stomp_limits.py::test_subscriptions_of_all_connections_have_a_limit"
    ),
    (BrokerSettings, "subscriptions_bytes_max"): (
        f"{_SESSIONS}test_stomp_limits.py::test_subscriptions_with_long_names_have_a_limit_in_bytes"
    ),
    (BrokerSettings, "temporary_count_max"): (
        f"{_SESSIONS}test_stomp_limits.py::test_one_temporary_queue_too_many_is_refused"
    ),
    (BrokerSettings, "topic_count_max"): (
        f"{_SESSIONS}test_stomp_limits.py::test_one_topic_too_many_is_refused"
    ),
    (BrokerSettings, "policy_count_max"): (
        "tests/unit/broker/test_policy_changes.py::"
        "test_there_are_never_more_patterns_than_the_settings_say"
    ),
    (BrokerSettings, "user_count_max"): (
        "tests/unit/broker/test_access_changes.py::test_there_is_a_limit_to_users_and_to_grants"
    ),
    (BrokerSettings, "grant_count_max"): (
        "tests/unit/broker/test_access_changes.py::test_there_is_a_limit_to_users_and_to_grants"
    ),
    (BrokerSettings, "queue_count_max"): (
        f"{_SESSIONS}test_stomp_limits.py::test_one_queue_too_many_is_refused"
    ),
    (BrokerSettings, "producer_count_max"): (
        f"{_BROKER}test_forgetting.py::test_those_used_longest_ago_are_forgotten"
    ),
    (BrokerSettings, "prefetch_max"): (
        f"{_SESSIONS}test_stomp.py::test_prefetch_zero_or_too_much_is_the_maximum"
    ),
    (stomp_transactions, "require_short"): (
        f"{_SESSIONS}test_stomp_limits.py::test_a_name_of_a_clients_own_has_a_bound"
    ),
    (StompSettings, "header_line_bytes_max"): _HEADS,
    (StompSettings, "header_count_max"): _HEADS,
    (StompSettings, "header_block_bytes_max"): _HEADS,
    (StompSettings, "body_bytes_max"): (
        f"{_STOMP}test_connection.py::test_an_unfinished_body_never_grows_past_its_limit"
    ),
    (StompSettings, "header_cache_entries_max"): (
        f"{_STOMP}test_connection.py::test_the_cache_of_blocks_is_bounded"
    ),
    (StompSettings, "header_cache_bytes_max"): (
        f"{_STOMP}test_connection.py::test_the_cache_of_blocks_takes_no_more_memory_than_is_said"
    ),
    # What one turn or one entry may hold.
    (ServerSettings, "batches_in_flight_max"): (
        f"{_SERVER}test_loop.py::test_batches_under_way_are_bounded"
    ),
    (ServerSettings, "batch_records_max"): (
        f"{_SERVER}test_sealer.py::test_a_full_batch_waits_for_nothing"
    ),
    (BrokerSettings, "batch_bytes_max"): (
        f"{_SERVER}test_loop.py::test_a_large_batch_does_not_wait"
    ),
    (ServerSettings, "learner_hold_bytes_max"): (
        f"{_SERVER}test_learner_holds.py::test_its_bound_is_a_bound"
    ),
    (ServerSettings, "reader_hold_bytes_max"): (
        f"{_SERVER}test_reader_holds.py::test_nothing_is_kept_beyond_what_the_node_allows"
    ),
    (ServerSettings, "hold_count_max"): (
        f"{_SERVER}test_log_access.py::test_the_log_is_kept_for_so_many_readers"
    ),
}
"""The bound, and a test that fails without it."""

NOT_WATCHED: dict[Bound, str] = {
    (BrokerSettings, "step_count_max"): "how long steps are: the turn's tests count them",
    (BrokerSettings, "dispatch_mark_step_max"): "how far ahead a mark is set: costs flags only",
    (BrokerSettings, "send_wait_seconds_max"): "a time, not an amount",
    (ServerSettings, "read_bytes_max"): "how long steps are: the turn's tests count them",
    (ServerSettings, "batch_settled_count_max"): "how long an entry takes to be applied, in steps",
    (ServerSettings, "seal_records_max"): "how long steps are: the turn's tests count them",
    (ServerSettings, "seal_bytes_max"): "how long steps are: the turn's tests count them",
    (ServerSettings, "close_seconds_max"): "a time, not an amount",
    (StompSettings, "command_bytes_max"): "within header_block_bytes_max, as the settings check",
    (StompSettings, "header_cache_block_bytes_max"): "within header_cache_bytes_max",
}
"""What is named like a bound and bounds no memory, and why."""


class _Endless:
    """In the place of a setting: it was given, and is never reached."""

    def __get__(self, _settings: object, _owner: type) -> int:
        return _NEVER_REACHED

    def __set__(self, _settings: object, _value: object) -> None:
        pass


@pytest.fixture(scope="module")
def outcomes() -> dict[Bound, list[Failure]]:
    """Run what is named, each under its own bound switched off; gives how each failed."""
    rounds: list[_Switching] = []
    for bound, test in NOTICED.items():
        fitting = next((each for each in rounds if test not in each.wanted), None)
        if fitting is None:
            rounds.append(fitting := _Switching())
        fitting.wanted[test] = bound
        fitting.failed[bound] = []
    # One that never ends has to end; one that notices its bound is not to be cut off by other work.
    quiet = ["-q", "--no-header", "--no-summary", "-o", "timeout=100"]
    alone = [
        option for it in ("cacheprovider", "randomly", "xdist") for option in ("-p", f"no:{it}")
    ]
    failed: dict[Bound, list[Failure]] = {}
    for each in rounds:
        pytest.main([*quiet, *alone, *each.wanted], [each])
        failed |= each.failed
    return failed


class _Switching:
    """Switches off, around each test, the bound that it must notice."""

    def __init__(self) -> None:
        self.wanted: dict[str, Bound] = {}
        self.failed: dict[Bound, list[Failure]] = {}

    def _bound(self, item: pytest.Item) -> Bound:
        return self.wanted[item.nodeid.partition("[")[0]]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        assert item.get_closest_marker("promise") is None, "its failure would be evidence"
        owner, name = self._bound(item)
        known = owner.__dict__[name]
        is_setting = owner in {BrokerSettings, ServerSettings, StompSettings}
        setattr(owner, name, _Endless() if is_setting else lambda *_arguments: 0)
        try:
            return (yield)
        finally:
            setattr(owner, name, known)

    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.excinfo is not None:
            self.failed[self._bound(item)].append(call.excinfo)


@pytest.mark.parametrize("bound", NOTICED, ids=lambda bound: bound[1])
def test_a_bound_that_is_missing_is_noticed(
    bound: Bound, outcomes: dict[Bound, list[Failure]]
) -> None:
    """
    By what the test looks at, not by a product that breaks or never ends.
    """
    assert any(map(_is_seen, outcomes[bound])), outcomes[bound]


def _is_seen(failure: Failure) -> bool:
    product = Path(stomp_transactions.__file__).parents[1]
    is_broken = Path(failure.traceback[-1].path).is_relative_to(product)
    return not is_broken and "Timeout" not in str(failure.value)


def test_every_bound_is_in_a_table() -> None:
    """
    A bound that nothing watches is one that is not there the day after.
    """
    named = {
        (owner, field.name)
        for owner in (BrokerSettings, ServerSettings, StompSettings)
        for field in fields(owner)
        if field.name.endswith("_max") or field.name == "memory_bytes"
    }
    assert named <= {*NOTICED, *NOT_WATCHED}
    assert not NOTICED.keys() & NOT_WATCHED.keys()
