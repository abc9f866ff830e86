"""
Durable subscriptions that become somebody's, in the log and wherever it is read again.
"""

from __future__ import annotations

import pytest

from holdfast.broker.cleaning_topics import homeless_topics
from holdfast.broker.durables import Wanted
from holdfast.broker.lasting.checkpoint import decode_state
from holdfast.broker.lasting.snapshot import digest_of, encode_state
from holdfast.broker.owning import TAKE_UP, give, owned_by, says_owners
from holdfast.broker.settings import BrokerSettings
from holdfast.model.access_records import AuditRecord
from holdfast.model.format_level import ACCESS_LEVEL, NEWEST_LEVEL
from holdfast.model.owners import NOBODY, Owner
from holdfast.model.records import FormatRecord
from holdfast.model.topic_records import SubscriptionRecord
from holdfast.store.record_codec import decode_records

ANN, BEN = Owner("ann", 7), Owner("ben", 8)
AUDIT = AuditRecord(1, "root", "admin", "give subscription", "c d ben", "done")


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings())
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    return desk


def opened(desk, owner=NOBODY, name="d", client_id="c", topic="t", **more):
    queue = desk.broker.durables.open(Wanted(topic, client_id, name, owner=owner, **more))
    desk.turn()
    return queue


def said(desk, kind):
    return [it for _, _, body in desk.log for it in decode_records(body) if type(it) is kind]


def test_who_takes_it_up_is_its_owner_everywhere(desk) -> None:
    """
    On a replica, from a checkpoint and under the next leader; it is said once, with who did it.
    """
    queue = opened(desk)
    before = digest_of(desk.state)
    for _ in range(2):
        assert opened(desk, ANN) is queue
    assert queue.lasting.owner == queue.belongs_to == ANN
    assert digest_of(desk.state) == digest_of(desk.replayed()) != before
    assert [it.owner for it in said(desk, SubscriptionRecord)] == [NOBODY, ANN]
    (audit,) = said(desk, AuditRecord)
    assert (audit.who, audit.action, audit.object) == ("ann", TAKE_UP, "c d")
    desk.fail_over()
    assert desk.broker.durables.find(("c", "d")).belongs_to == ANN
    assert opened(desk, BEN).belongs_to == ANN


def test_it_stands_in_the_entry_of_its_record_who_did_it(desk) -> None:
    """
    So nobody becomes an owner without it.
    """
    opened(desk)
    opened(desk, ANN)
    kinds = [[type(it) for it in decode_records(body)] for _, _, body in desk.log]
    assert [SubscriptionRecord, AuditRecord] in kinds


def test_what_the_cleaner_carries_on_is_the_new_owners_already(desk) -> None:
    """
    Though what says so is on its way to the log yet, and comes after what the cleaner has read.
    """
    queue = opened(desk)
    assert desk.broker.durables.open(Wanted("t", "c", "d", owner=ANN)) is queue
    assert queue.lasting.owner == NOBODY
    pieces = list(homeless_topics(desk.broker, desk.next_record))
    carried = [it for some in pieces for it in some if type(it) is SubscriptionRecord]
    desk.broker.receipts.add_records(it for some in pieces for it in some)
    desk.turn()
    assert [it.owner for it in carried] == [ANN]
    assert queue.lasting.owner == ANN


def test_it_keeps_what_waits_and_its_place(desk) -> None:
    """
    Number, slot, marks and messages are the same: nothing begins anew.
    """
    queue = opened(desk)
    topic = queue.topic.lasting
    topic.index.put(topic.next_sequence, 1, 100)
    first, declared = said(desk, SubscriptionRecord)[0], queue.lasting
    opened(desk, ANN)
    again = said(desk, SubscriptionRecord)[-1]
    for name in ("number", "topic_number", "slot", "client_id", "name", "first_sequence"):
        assert getattr(again, name) == getattr(first, name)
    assert again.dispatch_mark == queue.asked_mark
    assert (declared.index.live_count, desk.broker.durables.count) == (1, 1)


def test_a_checkpoint_has_it(desk) -> None:
    """
    Also of one without, and behind one with a selector.
    """
    opened(desk, ANN)
    opened(desk, name="nobodys")
    opened(desk, Owner("\u00e9", 1 << 40), name="third", selector_text="a = 1")
    found = decode_state(b"".join(encode_state(desk.state)), desk.settings)
    assert {key: it.owner for key, it in found.subscriptions.items()} == {
        ("c", "d"): ANN,
        ("c", "nobodys"): NOBODY,
        ("c", "third"): ("\u00e9", 1 << 40),
    }
    assert digest_of(found) == digest_of(desk.state)


def test_its_no_local_goes_by_whoever_has_it(desk) -> None:
    """
    What the new owner sends is his own, also under the next leader and when it is given on.
    """
    queue = opened(desk, has_no_local=True)
    assert set(queue.topic.no_local) == {"c"}
    opened(desk, ANN, has_no_local=True)
    assert set(queue.topic.no_local) == {"ann:c"}
    give(desk.broker.receipts, queue, BEN, AUDIT)
    desk.turn()
    assert set(queue.topic.no_local) == {"ben:c"}
    desk.fail_over()
    queue = desk.broker.durables.find(("c", "d"))
    assert set(queue.topic.no_local) == {"ben:c"}
    topic = queue.topic
    desk.broker.durables.remove(queue)
    assert topic.no_local == {}


def test_of_a_wildcard_the_whole_is_his(desk) -> None:
    """
    Its parts are not told of again: whose they are is looked up, and new ones are his.
    """
    opened(desk, topic="t.*")
    desk.broker.destinations.stored.topic("t.1")
    desk.turn()
    opened(desk, ANN, topic="t.*")
    desk.broker.destinations.stored.topic("t.2")
    desk.turn()
    assert list(owned_by(desk.state, "ann")) == [("c", "d")]
    assert len(desk.state.subscriptions) == 3
    assert len(said(desk, SubscriptionRecord)) == 4
    assert digest_of(desk.state) == digest_of(desk.replayed())


def test_below_its_level_nothing_is_said_of_owners(new_desk) -> None:
    """
    A member of before could not read the log.
    """
    desk = new_desk(BrokerSettings(known_format_level=ACCESS_LEVEL))
    desk.broker.receipts.record(FormatRecord(ACCESS_LEVEL))
    desk.turn()
    opened(desk, ANN)
    opened(desk, ANN)
    assert not says_owners(desk.state)
    assert [it.owner for it in said(desk, SubscriptionRecord)] == [NOBODY]
    assert list(owned_by(desk.state, "ann")) == said(desk, AuditRecord) == []
