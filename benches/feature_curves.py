"""
Curves of growth that are about features: message groups, selectors, durable subscriptions.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from contextlib import contextmanager

from curves import Point, resident_bytes
from feature_load import Drain, Wire, fill, frame, subscribing
from machine import KIB
from scenarios import Place, fresh

_BODY_BYTES = 100
_CONNECTIONS = 10
_PART = 100_000
_SUBSCRIBING = 500
_DURABLE = "durable:true"
_STORED_AT_ONCE = 250_000
"""So many for each second of a run: a million where it is for the record."""


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


def durables(place: Place, count: int) -> Point:
    """A topic with so many durable subscriptions that are away; then one of them comes back."""
    topic = fresh("topic")
    parts = max(1, round(place.seconds))
    messages = parts * _STORED_AT_ONCE
    (pid,) = place.broker.pids
    _leave(place.broker.address, topic, count)
    before = resident_bytes(pid)
    shape = ("-p", "10", "-c", "0", "-W", "1000", "-S", str(_BODY_BYTES))
    sent = [place.load(*shape, "-n", str(_STORED_AT_ONCE), destination=topic) for _ in range(parts)]
    grown = (resident_bytes(pid) - before) / messages
    part = ("-p", "0", "-c", "1", "-S", str(_BODY_BYTES), "-n", str(min(messages, _PART)))
    taken = place.load(*part, "--sub-header", _DURABLE, destination=topic)
    note = (
        f"{messages:,} messages, {grown:,.0f} B resident each;"
        f" {taken.rate:,.0f}/s to one that comes back"
    )
    faults = "; ".join(each.fault for each in (*sent, taken) if each.fault)
    rate = 0.0 if faults else statistics.harmonic_mean([each.rate for each in sent])
    return Point(f"{count:,}", rate, note=note, fault=faults)


def _leave(address: str, topic: str, count: int) -> None:
    """Let there be so many durable subscriptions, known by their ids, that nobody consumes from."""
    name, _, value = _DURABLE.partition(":")
    wire = Wire(address)
    for first in range(0, count, _SUBSCRIBING):
        numbers = range(first, min(first + _SUBSCRIBING, count))
        frames = [subscribing(topic, str(number), **{name: value}) for number in numbers]
        wire.write(b"".join(frames))
        wire.await_receipts(len(numbers))
    wire.write(frame("DISCONNECT", {"receipt": "bye"}))
    wire.await_receipts(1)
    wire.close()
