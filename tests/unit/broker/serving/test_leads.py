"""
What a queue may ask of its leadership.
"""

from __future__ import annotations

from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.leads import Leads


def test_a_leadership_does_all_that_its_queues_ask() -> None:
    """
    Each name is there: a queue is made with nothing else in hand.
    """
    asked = {name for name in vars(Leads) if not name.startswith("_")}
    assert asked > {"expires", "make_choice", "rests"}
    assert asked <= set(dir(Leadership))
