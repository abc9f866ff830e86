"""
The way back to the plain order, in steps.
"""

from __future__ import annotations

from holdfast.broker.serving.returned import Returned
from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.router.kept import Kept
from holdfast.broker.serving.router.pouring import Pouring


def test_all_is_put_back_in_short_steps(desk) -> None:
    """What is in memory only stands before the mark or behind it, each in its order."""
    queue, broker = desk.queue(), desk.broker
    for _ in range(4):
        desk.send(b"x")
        broker.send_transient(queue, b"", b"x")
        desk.turn()
    kept, returned = Kept(queue), Returned()
    for key in (1, 2, -1):
        kept.put(key, abs(key), frozenset())
    some, others = (frozenset((ConsumerClass(None, 0, place),)) for place in (1, 2))
    kept.set_apart(3, 3, some)  # As all others: it is looked at again.
    kept.put(-3, queue.transients[-3].order, some)
    kept.put(-4, queue.transients[-4].order, others)
    returned.put(4, 0, 4)
    returned.put(queue.transients[-2].order, 2, -2)
    pouring = Pouring(queue, queue.transients[-2].order)
    steps = 1
    while not pouring.step(kept, returned, 2):
        steps += 1
    assert steps > 4
    assert [*kept.left_over] == [1, 2, 3, 4]
    assert sorted(-serial for _, serial in pouring.below) == [-2, -1]
    assert pouring.waiting == [-3, -4]
    assert sorted(pouring.keys()) == [-4, -3, -2, -1]
    assert not (kept.parked.count or kept.alone.count or kept.left_over_volatile or returned)
