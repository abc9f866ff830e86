"""
The end of a leadership, queue by queue: what only its leader had of each is dropped.

With very many queues that takes long, so it is an errand: on a leader that is deposed while it
follows already, on one that is elected before it begins to serve.

Invariants:
    The contents of a queue's stored messages are counted until they are freed, and applying keeps
    counting them. Non-persistent messages count for nothing from the first step on: what the next
    begin or end of a leadership breaks off here is not counted for ever.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.queue import Queue
from holdfast.model.numbering import Numbering


def _give_names_back(state: BrokerState) -> None:
    """Let each name mean what it does in the log: what the leader had planned is forgotten."""
    by_name = state.by_name
    for queue in state.plans.values():
        if by_name.get(queue.name) is queue:
            del by_name[queue.name]
    for number, queue in state.leaving.items():
        if state.queues.get(number) is queue:  # Else it was a plan itself.
            by_name[queue.name] = queue
    state.plans.clear()
    state.leaving.clear()


def forget_leadership(
    state: BrokerState, temporary: Iterable[Queue], numbering: Numbering
) -> Iterator[None]:
    """
    Start the leader's half of all queues anew, in steps; the first gives the names back.

    Of temporary queues, and of those whose declaration did not come to anything, only the memory is
    given back.
    """
    strays = (*temporary, *state.plans.values())
    for queue in state.touched:
        queue.is_touched = False  # With the list: a deletion may be applied before its turn.
    state.touched.clear()
    _give_names_back(state)
    state.producers.forget_leadership()
    settings = state.settings
    step_count = settings.step_count_max
    effort = 0
    for queue in chain(strays, list(state.queues.values())):
        messages, known = queue.empty()
        contents, queue.cache = queue.cache, {}
        state.discards.add(messages, *known)
        state.discards.add_contents(contents)
        # It may have been deleted since the first step.
        if state.queues.get(queue.number) is queue:
            queue.forget_leadership(settings.dispatch_mark_step_min, numbering)
        effort += 1
        if effort >= step_count:
            effort = 0
            yield
