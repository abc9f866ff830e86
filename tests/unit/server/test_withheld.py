"""
Damaged messages: nobody gets them, nothing loses them.
"""

from __future__ import annotations


def test_what_is_damaged_is_offered_again_when_it_may_be_whole(node, send, subscribe) -> None:
    """
    Not at once, and not by every tick: a peer needs time to mend it.
    """
    node.connect(send(b"first"))
    node.settle()
    node.broker.state.forget_content(node.broker.queue("q"), 1)
    node.store.damaged = {1}
    consumer = node.connect(subscribe)
    withheld = node.conductor.withheld
    assert len(withheld) == 1
    assert node.conductor.counters.damaged == 1
    node.store.damaged.clear()
    withheld.offer_again(node.clock.now - 1)
    node.turn()
    assert b"MESSAGE" not in consumer.transport.take()
    withheld.offer_again(node.clock.now)
    node.turn()
    assert not withheld
    assert b"\n\nfirst\0" in consumer.transport.take()


def test_damage_of_a_former_leadership_is_forgotten(node, send, subscribe) -> None:
    """
    A new leadership finds the message by its own cursor; offering it twice would deliver it twice.
    """
    node.connect(send(b"first"))
    node.settle()
    node.broker.state.forget_content(node.broker.queue("q"), 1)
    node.store.damaged = {1}
    node.connect(subscribe)
    node.settle()
    assert node.conductor.withheld
    node.store.is_serving = False
    node.turn()
    node.store.damaged.clear()
    node.store.is_serving = True
    node.turn()
    consumer = node.connect(subscribe)
    node.clock.now += 6
    node.conductor.tick()
    node.settle()
    assert consumer.transport.take().count(b"MESSAGE") == 1
