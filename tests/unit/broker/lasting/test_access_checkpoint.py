"""Users and grants in a checkpoint."""

from __future__ import annotations

from holdfast.broker.lasting.checkpoint import decode_queue_names, decode_state
from holdfast.broker.lasting.snapshot import Snapshot, digest_of, encode_state
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


def test_many_are_written_in_steps_as_they_were_at_the_beginning() -> None:
    """
    Ten thousand of each took 28 ms at once with each checkpoint; what changes meanwhile comes in
    the next one.
    """
    users = [UserRecord(f"u{number}", "{}", 7) for number in range(600)]
    grants = [GrantRecord("r", f"queue://{number}", 1) for number in range(600)]
    state = state_of(*users, *grants)
    expected = b"".join(encode_state(state))
    snapshot = Snapshot(state)
    steps = 1
    while not snapshot.step(1):
        steps += 1
        changed = [UserRecord(f"u{steps}", "", 8), GrantRecord("r", f"queue://{steps}", 3)]
        state.apply(10_000 * steps, [*changed, GrantRecord(f"r{steps}", "queue://a", 1)], 6)
    assert steps > 1_200 // 128
    assert max(map(len, snapshot.parts)) < 128 * 64
    assert b"".join(snapshot.parts) == expected
    assert len(decode_state(expected, BrokerSettings()).access.grants) == 600
