"""Tests of admin/metric_kinds.py: a name, a text and a number, as Prometheus reads them."""

from __future__ import annotations

from holdfast.admin.metric_kinds import counter, gauge


def test_a_gauge_is_one_value_under_our_name() -> None:
    """What is true is 1."""
    [sample] = gauge("serving", "1 if it serves", True).samples

    assert ("holdfast_serving", {}, 1.0) == (sample.name, sample.labels, sample.value)


def test_a_counter_ends_as_prometheus_wants_it() -> None:
    """So that its rate is asked for by its usual name."""
    [sample] = counter("batches", "Batches sealed", 7).samples

    assert ("holdfast_batches_total", 7.0) == (sample.name, sample.value)
