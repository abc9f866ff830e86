"""
One value as Prometheus has it, under the name that all of this broker's metrics begin with.

Beside the families of the library: a gauge or counter without labels is one line for whoever tells
it.
"""

from __future__ import annotations

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric


def gauge(name: str, text: str, value: float) -> Metric:
    """Give what may rise and fall; true is 1."""
    return GaugeMetricFamily(f"holdfast_{name}", text, value=float(value))


def counter(name: str, text: str, value: float) -> Metric:
    """Give what only rises."""
    return CounterMetricFamily(f"holdfast_{name}", text, value=float(value))
