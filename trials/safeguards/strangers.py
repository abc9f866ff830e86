"""
What keeps a client's guess from costing others a message, switched off.

Only a client that guesses shows it: honest ones name what they were given.
"""

from __future__ import annotations

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving import late
from holdfast.broker.serving.leadership import Leadership
from holdfast.broker.serving.queue import Queue
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.strangers import GUESSED


def _believe_any_id() -> list[Patch]:
    def find(
        state: BrokerState, leadership: Leadership, queue_number: int, key: int, _client: str
    ) -> Queue | None:
        queue = late.served(state, leadership, queue_number)
        is_there = queue is not None and (key in queue.transients or queue.index.is_live(key))
        return queue if is_there else None

    return [(late, "find_late", find)]


ABLATIONS = [
    Ablation(
        "a late acknowledgement counts only for what may have been delivered",
        _believe_any_id,
        (GUESSED,),
    ),
]
