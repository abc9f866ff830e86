"""
Durable subscriptions become somebody's: by who takes one up that is nobody's, or by an operator.

What changes is said by the subscription's whole record, as it will be once all is applied that is
on its way, so a node that begins with a later part of the log needs nothing of before. Who became
its owner, and by whose word, stands in the same entry.

Invariants:
    Nothing is said before every member can read it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.durable import DurableQueue, restored
from holdfast.model.access_records import AuditRecord
from holdfast.model.format_level import OWNERS_LEVEL
from holdfast.model.owners import NOBODY, Owner

TAKE_UP: Final = "take up subscription"
_BY_A_CLIENT: Final = "clients"


def says_owners(state: BrokerState) -> bool:
    """Whether the log may say whose a durable subscription is."""
    return state.format_level >= OWNERS_LEVEL


def take_up(
    state: BrokerState, receipts: Receipts, queue: DurableQueue, owner: Owner, now_ms: int
) -> None:
    """Let one that is nobody's be his who subscribes to it."""
    if owner == NOBODY or queue.belongs_to != NOBODY or not says_owners(state):
        return
    if queue.lasting.is_declared:
        what = " ".join(queue.key)
        audit = AuditRecord(now_ms, owner.name, _BY_A_CLIENT, TAKE_UP, what, "done")
        give(receipts, queue, owner, audit)


def give(receipts: Receipts, queue: DurableQueue, owner: Owner, audit: AuditRecord) -> None:
    """Let one be this user's from now on; whoever asks has looked that it can be said."""
    queue.belong_to(owner)
    receipts.add_records([*restored(queue.lasting, queue), audit])


def owned_by(state: BrokerState, name: str) -> Iterator[tuple[str, str]]:
    """Give client-id and name of each that is a user's, or was an earlier one's of his name."""
    for key, lasting in list(state.subscriptions.items()):
        if lasting.owner.name == name and not lasting.whole_number:
            yield key
