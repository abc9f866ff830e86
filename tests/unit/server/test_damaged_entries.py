"""
Damaged entries are passed when nothing lives in them, and only what is known to be damaged is.
"""

from __future__ import annotations

import pytest

from holdfast.server.damaged_entries import DamagedEntries


@pytest.fixture
def full(new_node, send):
    """A node with some messages, one to an entry, all of them alive."""
    node = new_node()
    node.serve()
    producer = node.connect()
    for number in range(5):
        producer.data_received(send(b"%d" % number))
        node.settle()
    node.damage = DamagedEntries(node.broker, node.store)
    return node


def judge(node) -> tuple[int, int] | None:
    """Look to the end."""
    passed = None
    while node.damage.is_looking:
        passed = node.damage.step()
    return passed


def test_only_what_is_known_to_be_damaged_is_looked_at(full) -> None:
    """What cannot be read just now may be read later."""
    assert not full.damage.begin(3)
    assert not full.damage.is_looking
    full.store.damaged = {3}
    assert full.damage.begin(3)
    assert full.damage.is_looking


def test_while_something_lives_there_it_is_told(full, capsys) -> None:
    """Once for the same queues, with the queue and how many."""
    full.store.damaged = {3, 4}
    for _ in range(2):
        assert full.damage.begin(3)
        assert judge(full) is None
    assert {"q": 2} == full.damage.needed
    assert 1 == capsys.readouterr().out.count("q (2)")
    full.damage.forget()
    assert {} == full.damage.needed


def test_with_nothing_alive_it_goes_on_behind(full) -> None:
    """With the record that follows, so that what had its home there is carried on."""
    full.broker.queue("q").purging_through = 99
    full.store.damaged = {3, 4}
    assert full.damage.begin(3)
    assert (5, full.store.entry(5).first_record) == judge(full)


def test_what_was_repaired_meanwhile_is_read(full) -> None:
    """Or a part of it: then the rest is judged anew."""
    full.broker.queue("q").purging_through = 99
    for left in (set(), {3}):
        full.store.damaged = {3, 4}
        assert full.damage.begin(3)
        full.store.damaged = left
        assert (3, 0) == judge(full)
