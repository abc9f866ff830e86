"""Users and grants in a checkpoint."""

from __future__ import annotations

from holdfast.broker.lasting.checkpoint import decode_queue_names, decode_state
from holdfast.broker.lasting.snapshot import digest_of, encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.access_records import GrantRecord, UserRecord
from holdfast.model.records import PolicyRecord, QueueRecord


def state_of(*records) -> BrokerState:
    state = BrokerState(BrokerSettings())
    policy = PolicyRecord("queue://a", "{}")
    state.apply(1, [QueueRecord(1, "q"), policy, *records], 5)
    return state


def test_they_come_back_with_their_homes() -> None:
    """A node that starts from a checkpoint judges as before, and its cleaner carries them on."""
    state = state_of(
        UserRecord("zoë", '{"roles":["é"]}', 7),
        UserRecord("ann", "{}", 1 << 60),
        GrantRecord("é", "queue://é.>", 7),
    )
    payload = b"".join(encode_state(state))
    back = decode_state(payload, BrokerSettings())
    assert digest_of(back) == digest_of(state)
    assert back.access.homes == state.access.homes
    assert {it.name: (it.values, it.revision) for it in back.access.users.values()} == {
        "zoë": ('{"roles":["é"]}', 7),
        "ann": ("{}", 1 << 60),
    }
    assert decode_queue_names(payload) == {1: "q"}


def test_nodes_whose_grants_differ_have_other_digests() -> None:
    """So that comparing states notices it (S9)."""
    one = state_of(GrantRecord("a", "queue://b", 1))
    assert digest_of(one) != digest_of(state_of(GrantRecord("a", "queue://b", 3)))
    assert digest_of(one) != digest_of(state_of(GrantRecord("a", "queue://c", 1)))
    assert digest_of(one) == digest_of(state_of(GrantRecord("a", "queue://b", 1)))
