"""
Curves of growth that are about features: message groups, selectors.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from curves import Point, resident_bytes
from feature_load import Drain, Wire, fill, subscribing
from machine import KIB
from scenarios import Place

_BODY_BYTES = 100
_CONNECTIONS = 10
_PART = 100_000
_SUBSCRIBING = 500


def groups(place: Place, count: int) -> Point:
    """A queue of so many message groups, of which three consumers take a part."""
    queue = place.new_queue()
    (pid,) = place.broker.pids
    named = ({"JMSXGroupID": f"group {number}"} for number in range(count))
    fill(place.broker.address, queue, range(count), lambda _: next(named), _BODY_BYTES)
    wires = [Wire(place.broker.address) for _ in range(3)]
    for wire in wires:
        wire.subscribe(queue, "0", ack="client-individual")
    result = Drain(wires, min(count, _PART)).run()
    note = f"{resident_bytes(pid) / KIB**2:,.0f} MiB resident"
    for wire in wires:
        wire.close()
    return Point(f"{count:,}", result.rate, note=note, fault="; ".join(result.faults))


@contextmanager
def _selecting(place: Place, queue: str, count: int) -> Iterator[None]:
    """So many consumers that select replies which never come."""
    wires = [Wire(place.broker.address) for _ in range(_CONNECTIONS)]
    for first in range(0, count, _SUBSCRIBING):
        wire = wires[first // _SUBSCRIBING % _CONNECTIONS]
        numbers = range(first, min(first + _SUBSCRIBING, count))
        wire.write(
            b"".join(
                subscribing(queue, str(n), selector=f"JMSCorrelationID = 'reply {n}'")
                for n in numbers
            )
        )
        wire.await_receipts(len(numbers))
    yield
    for wire in wires:
        wire.close()


def selectors(place: Place, count: int) -> Point:
    """One producer and one consumer that selects, beside so many that select something else."""
    queue = place.new_queue()
    (pid,) = place.broker.pids
    before = resident_bytes(pid)
    with _selecting(place, queue, count):
        grown = (resident_bytes(pid) - before) / count
        run = place.load(
            *("-p", "1", "-c", "1", "-W", "1000", "-T", f"{place.seconds:g}"),
            *("--send-header", "correlation-id:mine"),
            *("--sub-header", "selector:JMSCorrelationID = 'mine'"),
            destination=queue,
        )
    note = f"{grown / KIB:,.1f} KiB a consumer"
    return Point(f"{count:,}", run.rate, note=note, fault=run.fault)
