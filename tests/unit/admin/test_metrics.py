"""
Prometheus' samples.
"""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client.parser import text_string_to_metric_families

from holdfast.admin.certificate_status import CertificateStatus
from holdfast.admin.metrics import Metrics
from holdfast.admin.metrics_selection import read_selection
from holdfast.admin.operations import Operations
from holdfast.admin.queue_pages import PAGE_COUNT_MAX
from holdfast.admin.slices import Slices
from holdfast.admin.status import QueueStatus, StoreStatus


def exposition(node, wanted: str = "*") -> bytes:
    metrics = Metrics(Operations(node))

    async def take() -> list[bytes]:
        return await metrics.pieces(Slices(), read_selection(wanted))

    return b"".join(asyncio.run(take()))


def samples(node, wanted: str = "*") -> dict[str, float]:
    text = exposition(node, wanted).decode()
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
        ("holdfast_messages_dead_lettered_total", 4),
        ("holdfast_messages_duplicates_total", 6),
        ("holdfast_messages_expired_total", 8),
        ("holdfast_messages_fired_total", 9),
        ("holdfast_messages_scheduled_refused_total", 2),
        ("holdfast_records_per_sync", 284),
        ("holdfast_sync_seconds_bucket[0.001]", 4),
        ("holdfast_sync_seconds_bucket[+Inf]", 10),
        ("holdfast_sync_seconds_sum", 0.02),
        ("holdfast_member_connected[a]", 1),
        ("holdfast_member_connected[c]", 0),
        ("holdfast_member_lag_bytes[b]", 4096),
        ("holdfast_member_lag_seconds[b]", 0.5),
        ("holdfast_topics_stored", 2),
        ("holdfast_topics_messages", 6),
        ("holdfast_topics_bytes", 600),
        ("holdfast_queues", 2),
        ("holdfast_queues_messages", 12),
        ("holdfast_queues_messages_max", 9),
        ("holdfast_queues_unacknowledged", 1),
        ("holdfast_queues_consumers", 1),
        ("holdfast_durable_subscriptions", 2),
        ("holdfast_durable_subscriptions_messages", 4),
        ("holdfast_durable_subscriptions_messages_max", 4),
        ("holdfast_durable_subscriptions_consumers", 1),
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


def test_what_runs_out_is_a_number_of_seconds(node) -> None:
    """An alarm is set on it; where nothing is shown by TLS there is none."""
    name = "holdfast_certificate_left_seconds"
    assert not any(it.startswith(name) for it in samples(node))
    made = [
        CertificateStatus(tls="peers", kind=kind, named="a", left_seconds=left)
        for kind, left in (("certificate", 60.0), ("crl", -5.0))
    ]
    node.be(certificates=tuple(made))
    found = samples(node)
    assert found[f"{name}[certificate][a][peers]"] == 60.0
    assert found[f"{name}[crl][a][peers]"] == -5.0


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


def single(node, wanted: str) -> set[str]:
    """The queues with samples of their own."""
    found = samples(node, wanted)
    return {name[24:-1] for name in found if name.startswith("holdfast_queue_messages[")}


def test_single_queues_have_samples_on_request_only(node) -> None:
    """
    There may be a hundred thousand: the sums are for every scrape, the rest is asked for.
    """
    assert single(node, "") == set()
    assert samples(node, "")["holdfast_queues_messages"] == 12
    assert single(node, "top:1") == {"mail"}
    assert single(node, "top:5") == {"mail", "orders/new"}
    assert single(node, "orders/*") == {"orders/new"}
    assert single(node, "ma[il]?") == {"mail"}


def test_a_pattern_that_fits_too_many_says_how_many_are_left_out(node) -> None:
    """
    Nothing is cut off in silence.
    """
    node.present = [QueueStatus(name=f"q{number:05}") for number in range(PAGE_COUNT_MAX + 7)]
    found = samples(node, "q*")
    assert found["holdfast_queues_left_out"] == 7
    assert len(single(node, "q*")) == PAGE_COUNT_MAX


@pytest.mark.parametrize(
    "wanted",
    ["top:0", "top:", "top:x", "top:1001", "top:\u0663", "top:1_0", "top:9999999999", "x" * 201],
)
def test_what_cannot_be_selected_is_refused(wanted) -> None:
    """
    With a sentence that says what is expected.
    """
    with pytest.raises(ValueError, match="queues: "):
        read_selection(wanted)


def test_a_queues_name_may_hold_anything(node) -> None:
    """
    What the format needs escaped is escaped.
    """
    node.present = [QueueStatus(name='a"b\\c\nd', messages=5)]
    assert rb'holdfast_queue_messages{queue="a\"b\\c\nd"} 5.0' in exposition(node)
