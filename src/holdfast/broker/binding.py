"""
Names with wildcards that consume virtual topics, as they come into being.

Who subscribes to one declares it. What it means from then on is found by `virtual_bindings`, under
each leader anew.

Invariants:
    There are never more of one form than the limit: each may be one queue more for every message.
"""

from __future__ import annotations

from collections.abc import Iterator

from holdfast.broker.destinations import Destinations
from holdfast.broker.serving.virtual_bindings import topics_of
from holdfast.errors import DestinationError
from holdfast.model.format_level import WILD_DURABLES_LEVEL
from holdfast.model.limits import BINDINGS_MAX


def bind(destinations: Destinations, name: str) -> Iterator[None]:
    """
    Let a name with wildcards be that of queues that consume virtual topics, if it can be.

    At once, but where all queues are to be looked through first, which takes steps. The queues come
    into being with the first message for them. What the name means is in the log, as a queue on
    which nothing ever is. Not before each member of a cluster is of a version that makes queues for
    such a name: one that does not might lead next.

    Raises:
        DestinationError: There are too many such names, or queues.
    """
    if destinations.has_queue(name) or destinations.format_level < WILD_DURABLES_LEVEL:
        return
    virtual = destinations.virtual
    bound_in = [form for form in destinations.forms() if topics_of(name, form) is not None]
    for form in bound_in:
        while virtual.has_to_look(form, destinations.queue_count):
            yield
            yield from virtual.look_through(form, destinations.has_queue)
        if len(virtual.bindings_of(form)) >= BINDINGS_MAX:
            raise DestinationError(
                f"at most {BINDINGS_MAX} names with wildcards may consume virtual topics, as"
                f" '{name}' would; one that nobody needs goes by `holdfast queues delete`"
            )
    if bound_in:
        destinations.queue(name)
