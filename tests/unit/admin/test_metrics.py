"""
Prometheus' samples.
"""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.admin.metrics import Metrics
from holdfast.admin.operations import Operations
from holdfast.admin.status import StoreStatus


def exposition(node) -> bytes:
    operations = Operations(node)
    return b"".join(Metrics(operations).pieces(list(operations.queues())))


def samples(node) -> dict[str, float]:
    text = exposition(node).decode()
    return {
        sample.name + "".join(f"[{value}]" for _, value in sorted(sample.labels.items())): (
            sample.value
        )
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("holdfast_role[leader]", 1),
        ("holdfast_role[follower]", 0),
        ("holdfast_serving", 1),
        ("holdfast_term", 7),
        ("holdfast_commit_index", 100),
        ("holdfast_applied_index", 99),
        ("holdfast_store_bytes", 1_000_000),
        ("holdfast_store_segments", 2),
        ("holdfast_store_free_bytes", 5_000_000),
        ("holdfast_store_space_low", 0),
        ("holdfast_store_full_of_live", 0),
        ("holdfast_producers", 5),
        ("holdfast_producers_max", 9),
        ("holdfast_producers_forgotten_total", 7),
        ("holdfast_store_damage", 1),
        ("holdfast_messages_enqueued_total", 1000),
        ("holdfast_messages_acknowledged_total", 988),
        ("holdfast_batches_total", 20),
        ("holdfast_records_per_sync", 198.8),
        ("holdfast_sync_seconds_bucket[0.001]", 4),
        ("holdfast_sync_seconds_bucket[+Inf]", 10),
        ("holdfast_sync_seconds_sum", 0.02),
        ("holdfast_member_connected[a]", 1),
        ("holdfast_member_connected[c]", 0),
        ("holdfast_member_lag_bytes[b]", 4096),
        ("holdfast_member_lag_seconds[b]", 0.5),
        ("holdfast_queue_messages[orders/new]", 3),
        ("holdfast_queue_enqueued_total[mail]", 20),
        ("holdfast_connections", 1),
        ("holdfast_connections_max", 100),
        ("holdfast_connections_turned_away_total", 3),
    ],
)
def test_each_number_has_its_sample(node, name: str, value: float) -> None:
    """
    What the operator sees is what Prometheus scrapes.
    """
    assert samples(node)[name] == value


def test_what_only_the_leader_knows_has_no_sample_elsewhere(node) -> None:
    """
    An unknown lag is absent, not 0, or alarms would stay silent.
    """
    assert "holdfast_member_lag_bytes[c]" not in samples(node)


def test_a_node_without_syncs_or_known_free_space_is_scraped(node) -> None:
    """
    A node that just started has samples, and no division by zero.
    """
    node.be(batches=type(node.now.batches)(), store=StoreStatus())
    found = samples(node)
    assert found["holdfast_records_per_sync"] == 0
    assert "holdfast_store_free_bytes" not in found


def test_two_nodes_in_one_process_do_not_mix(node) -> None:
    """
    The registry belongs to the node, so a second one registers without a clash.
    """
    assert exposition(node) == exposition(node)
