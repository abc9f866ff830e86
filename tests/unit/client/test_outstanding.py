"""
The books of requests: by receipt, in order, with their bytes and deadlines.
"""

from __future__ import annotations

import pytest

from holdfast.client.outstanding import Operation, Outstanding
from holdfast.errors import LinkLostError


class Noted(Operation):
    is_limited_by_timeout = True

    def __init__(self, name: str, size_bytes: int = 0) -> None:
        super().__init__(size_bytes)
        self.name = name
        self.again: list[tuple[str, bytes]] = [(name, name.encode())]

    def replay(self) -> list[tuple[str, bytes]]:
        return self.again


class Patient(Noted):
    is_limited_by_timeout = False


def test_a_receipt_takes_its_operation_off_the_books() -> None:
    """Bytes are counted while it is there; an unknown receipt is nobody's."""
    outstanding = Outstanding()
    operation = Noted("a", 10)
    outstanding.add("a", operation)
    assert (len(outstanding), outstanding.bytes) == (1, 10)
    assert outstanding.take("b") is None
    assert outstanding.take("a") is operation
    assert (len(outstanding), outstanding.bytes) == (0, 0)


def test_replays_keep_the_order_and_write_the_books_anew() -> None:
    """What is sent again is awaited again; what is not is forgotten."""
    outstanding = Outstanding()
    operations = [Noted(name, 5) for name in "abc"]
    for operation in operations:
        outstanding.add(operation.name, operation)
    operations[1].again = []
    operations[2].again = [("c1", b"C1"), ("c2", b"C2")]
    assert outstanding.take_replays() == [b"a", b"C1", b"C2"]
    assert outstanding.take("b") is None
    assert outstanding.take("c1") is outstanding.take("c2") is operations[2]
    assert outstanding.bytes == 5


def test_an_operation_with_many_receipts_is_one() -> None:
    """It is listed once, and dropped with all its receipts."""
    outstanding = Outstanding()
    operation, other = Noted("a"), Noted("b")
    outstanding.add("a1", operation)
    outstanding.add("b", other)
    outstanding.add("a2", operation)
    assert outstanding.operations() == [operation, other]
    outstanding.drop(operation)
    assert outstanding.take_all() == [other]
    assert len(outstanding) == 0


def test_only_sends_have_deadlines() -> None:
    """ActiveMQ's timeout gives sends up and nothing else; a new link clears it."""
    outstanding = Outstanding()
    early, late, patient = Noted("a", 1), Noted("b", 1), Patient("c", 1)
    for operation in (early, late, patient):
        outstanding.add(operation.name, operation)
    assert outstanding.next_deadline() is None
    late.deadline = 20.0
    outstanding.set_deadlines(10.0)
    assert outstanding.next_deadline() == 10.0
    assert outstanding.take_expired(10.0) == [early]
    assert outstanding.bytes == 2
    outstanding.clear_deadlines()
    assert outstanding.next_deadline() is None


def test_an_operation_says_itself_what_its_outcome_means() -> None:
    """The base class has no answer."""
    operation = Operation()
    with pytest.raises(NotImplementedError):
        operation.received("1")
    with pytest.raises(NotImplementedError):
        operation.refused("1", LinkLostError("x"))
    with pytest.raises(NotImplementedError):
        operation.abandoned(LinkLostError("x"))
    with pytest.raises(NotImplementedError):
        operation.replay()
