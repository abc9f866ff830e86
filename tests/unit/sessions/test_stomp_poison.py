"""
A message that kills its consumers is found, however many others they have: only it is dead.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.returns import Returned
from holdfast.broker.serving.router import sifting
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord
from tests.unit.sessions.poison import POISON, consumer, dead, die, messages, said, sent


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    said(desk, '{"maximumRedeliveries":2}')
    return desk


def work(desk, *, prefetch: int = 100) -> tuple[list[str], bool]:
    """Do all there is to do, or die of it; gives what was done, and whether it lives."""
    client = consumer(desk, prefetch)
    done = []
    while found := messages(client):
        for message in found:
            if message.body.decode() == POISON:
                die(client)
                return done, False
            client.say("ACK", id=message.headers["ack"])
            done.append(message.body.decode())
    return done, True


@pytest.mark.parametrize("place", [0, 1, 40, 99])
def test_only_the_poison_is_dead(desk, place: int) -> None:
    """
    Q25: each of its consumers has a hundred; all others are done, each once, and none is dead.
    """
    good = [f"good {number}" for number in range(99)]
    sent(desk, *good[:place], POISON, *good[place:])
    done: list[str] = []
    for _ in range(12):
        some, lives = work(desk)
        done += some
        if lives:
            break
    assert sorted(done) == sorted(good)
    assert dead(desk) == [POISON]


def test_a_new_leader_goes_on_where_the_last_one_was(desk) -> None:
    """What was counted stands in the log."""
    sent(desk, POISON, "a", "b")
    for _ in range(3):
        assert work(desk) == ([], False)
    desk.fail_over()
    client = consumer(desk)
    (alone,) = messages(client)
    assert alone.body == b"poison"
    die(client)
    assert desk.broker.queue("orders").index.returned(1) == Returned(4, 1)
    assert desk.broker.queue("orders").index.returned(2) == Returned(3, 0)


def test_who_is_at_work_runs_empty_for_it_and_goes_on_then(desk) -> None:
    """Nobody holds nothing: the others go on, and the one gets nothing beside it."""
    sent(desk, "1", "2", "3", "4")
    busy, other = consumer(desk, 2), consumer(desk, 2)
    held, kept = messages(busy), messages(other)
    sent(desk, "a", "b")
    for _ in range(3):
        lost = consumer(desk)
        assert [each.body for each in messages(lost)] == [b"a", b"b"]
        die(lost)
    sent(desk, *"cdef")
    for client, message in ((busy, held[0]), (other, kept[0])):
        client.say("ACK", id=message.headers["ack"])
    assert [each.body for each in messages(busy)] == []
    assert [each.body for each in messages(other)] == [b"c"]
    busy.say("ACK", id=held[1].headers["ack"])
    (alone,) = messages(busy)
    assert alone.body == b"a"
    busy.say("ACK", id=alone.headers["ack"])
    (alone,) = messages(busy)
    assert alone.body == b"b"
    busy.say("ACK", id=alone.headers["ack"])
    assert [each.body for each in messages(busy)] == [b"d", b"e"]


def test_who_runs_empty_by_itself_is_not_passed_over(desk) -> None:
    """Another one was to run empty and takes long; this one has room all the while."""
    sent(desk, "1", "2", "3", "4")
    slow, quick = consumer(desk, 2), consumer(desk, 2)
    held, done = messages(slow), messages(quick)
    sent(desk, "a", "b")
    for _ in range(3):
        lost = consumer(desk)
        assert [each.body for each in messages(lost)] == [b"a", b"b"]
        die(lost)
    slow.say("ACK", id=held[0].headers["ack"])
    assert messages(slow) == []
    quick.say("ACK", id=done[0].headers["ack"])
    assert messages(quick) == []
    quick.say("ACK", id=done[1].headers["ack"])
    (alone,) = messages(quick)
    assert alone.body == b"a"


def test_without_a_word_on_redelivery_and_with_0_nothing_is_sent_alone(desk) -> None:
    """There is nothing to be found out."""
    for values in ("", '{"maximumRedeliveries":2,"suspectAfter":0}'):
        said(desk, values)
        sent(desk, "a", "b")
        for _ in range(5):
            client = consumer(desk)
            assert [each.body for each in messages(client)] == [b"a", b"b"]
            client.leave()
            desk.broker.errands.run(lambda: False)
            desk.turn()
        client = consumer(desk)
        for message in messages(client):
            client.say("ACK", id=message.headers["ack"])
        client.leave()
        desk.turn()


def test_non_persistent_ones_are_found_too(desk) -> None:
    """They are counted in memory."""
    sender = desk.connect()
    for body in (POISON, "a", "b"):
        sender.send(body.encode(), persistent="false")
    done: list[str] = []
    for _ in range(8):
        some, lives = work(desk)
        done += some
        if lives:
            break
    assert sorted(done) == ["a", "b"]
    assert desk.broker.queue("orders").transient_count == 0


def test_it_goes_behind_a_router_too(desk) -> None:
    """The only consumer of a queue runs empty, and has it alone."""
    sent(desk, POISON, "a", "b")
    for _ in range(3):
        work(desk)
    sole = consumer(desk, activemq__exclusive="true")
    (alone,) = messages(sole)
    assert alone.body == b"poison"
    sole.say("ACK", id=alone.headers["ack"])
    (second,) = messages(sole)
    assert second.body == b"a"


def test_where_groups_come_what_waits_is_still_sent_alone(desk) -> None:
    """One after the other, before what is in a group."""
    sent(desk, POISON, "a", "b")
    for _ in range(3):
        work(desk)
    narrow = consumer(desk, 5)
    (alone,) = messages(narrow)
    assert alone.body == b"poison"
    desk.connect().send(b"grouped", JMSXGroupID="g")
    for body in (b"a", b"b", b"grouped"):
        narrow.say("ACK", id=alone.headers["ack"])
        (alone,) = messages(narrow)
        assert alone.body == body


def test_who_has_one_alone_keeps_it_so_when_somebody_chooses(desk) -> None:
    """Also when nobody does any more: all others go to others, and to it once it is done."""
    sent(desk, POISON, "a", "b")
    for _ in range(3):
        work(desk)
    narrow = consumer(desk, 5)
    (alone,) = messages(narrow)
    assert alone.body == b"poison"
    chooser = consumer(desk, 5, selector="kind = 'c'")
    desk.connect().send(b"c", kind="c")
    desk.connect().send(b"d", kind="d")
    assert messages(narrow) == []
    assert [each.body for each in messages(chooser)] == [b"c"]
    chooser.leave()
    desk.turn()
    assert messages(narrow) == []
    narrow.say("ACK", id=alone.headers["ack"])
    for body in (b"a", b"b"):
        (alone,) = messages(narrow)
        assert alone.body == body
        narrow.say("ACK", id=alone.headers["ack"])
    assert [each.body for each in messages(narrow)] == [b"c", b"d"]


def test_it_goes_alone_to_who_wants_it(desk) -> None:
    """Those who want something else go on, and have no part in it; nobody else is dead."""
    sender = desk.connect()
    for body, kind in ((b"poison", "a"), (b"1", "a"), (b"2", "b"), (b"3", "a")):
        sender.send(body, kind=kind)
    for _ in range(3):
        client = consumer(desk, 9, selector="kind = 'a'")
        assert [each.body for each in messages(client)] == [b"poison", b"1", b"3"]
        die(client)
    other = consumer(desk, 9, selector="kind = 'b'")
    assert [each.body for each in messages(other)] == [b"2"]
    for _ in range(3):
        client = consumer(desk, 9, selector="kind = 'a'")
        assert [each.body for each in messages(client)] == [b"poison"]
        die(client)
    assert dead(desk) == ["poison"]
    client = consumer(desk, 9, selector="kind = 'a'")
    for body in (b"1", b"3"):
        (alone,) = messages(client)
        assert alone.body == body
        client.say("ACK", id=alone.headers["ack"])
    sender.send(b"4", kind="a")
    sender.send(b"5", kind="a")
    assert [each.body for each in messages(client)] == [b"4", b"5"], "it has room as before"


def lost_with_another(desk, *, kind: str = "a") -> None:
    """Let a poison and another one of a kind be lost together until they are sent alone."""
    sender = desk.connect()
    for body in (b"poison", b"x"):
        sender.send(body, kind=kind)
    for _ in range(3):
        client = consumer(desk, 9, selector=f"kind = '{kind}'")
        assert [each.body for each in messages(client)] == [b"poison", b"x"]
        die(client)


def test_who_comes_later_and_wants_it_has_it(desk) -> None:
    """Those who want it are at work, and it goes to the first who is not."""
    desk.connect().send(b"0", kind="b")
    busy = consumer(desk, 1, selector="kind in ('a', 'b')")
    (held,) = messages(busy)
    consumer(desk, selector="kind = 'c'")  # Who has room, so that all is looked at.
    lost_with_another(desk)
    late = consumer(desk, 9, selector="kind = 'a'")
    (alone,) = messages(late)
    assert alone.body == b"poison"
    busy.say("ACK", id=held.headers["ack"])
    (alone,) = messages(busy)
    assert alone.body == b"x"


def test_one_of_those_who_want_it_is_to_run_empty(desk) -> None:
    """Others of its kind go to others meanwhile; it has it as it has settled the last."""
    sender = desk.connect()
    for number in range(2):
        sender.send(b"%d" % number, kind="a")
    first = consumer(desk, 2, selector="kind <> 'b'")
    held = messages(first)
    lost_with_another(desk)
    second = consumer(desk, 1, selector="kind <> 'b'")
    (alone,) = messages(second)
    assert alone.body == b"poison"
    first.say("ACK", id=held[0].headers["ack"])
    sender.send(b"2", kind="a")
    assert messages(first) == [], "it is to have the other one alone"
    first.say("ACK", id=held[1].headers["ack"])
    (alone,) = messages(first)
    assert alone.body == b"x"
    first.say("ACK", id=alone.headers["ack"])
    assert [each.body for each in messages(first)] == [b"2"]


def test_what_was_purged_is_not_sent_alone(desk) -> None:
    """Whoever would have had it gets what comes later."""
    desk.connect().send(b"0", kind="b")
    busy = consumer(desk, 1, selector="kind in ('a', 'b')")
    (held,) = messages(busy)
    consumer(desk, selector="kind = 'c'")  # Who has room, so that all is looked at.
    lost_with_another(desk)
    queue = desk.broker.queue("orders")
    assert queue.sifting.kept.alone.count == 2
    desk.broker.purge("orders", busy.session, b"p")
    desk.turn()
    assert queue.sifting.kept.alone.count == 0
    late = consumer(desk, 9, selector="kind = 'a'")
    for body in (b"1", b"2"):
        desk.connect().send(body, kind="a")
    assert [each.body for each in messages(late)] == [b"1", b"2"]
    assert held.body == b"0"


def test_one_of_a_group_goes_as_all_do_while_somebody_selects(desk) -> None:
    """It is sent with others, and once nobody selects any more alone again."""
    sender = desk.connect()
    for body in (b"poison", b"x"):
        sender.send(body, kind="a", JMSXGroupID="g")
    for _ in range(4):
        client = consumer(desk, 9, selector="kind = 'a'")
        assert [each.body for each in messages(client)] == [b"poison", b"x"]
        die(client)
    assert [each.body for each in messages(consumer(desk, 9))] == [b"poison"]


def test_no_more_than_some_wait_to_be_sent_alone(desk, monkeypatch) -> None:
    """Of more, each goes as all do, unless there are fewer by then."""
    monkeypatch.setattr(sifting, "ALONE_COUNT_MAX", 1)
    desk.connect().send(b"0", kind="b")
    busy = consumer(desk, 1, selector="kind in ('a', 'b')")
    (held,) = messages(busy)
    consumer(desk, selector="kind = 'c'")  # Who has room, so that all is looked at.
    lost_with_another(desk)
    kept = desk.broker.queue("orders").sifting.kept
    assert (kept.alone.count, kept.parked.count) == (1, 1)
    for body in (b"poison", b"x"):
        busy.say("ACK", id=held.headers["ack"])
        (held,) = messages(busy)
        assert held.body == body


def test_who_is_at_work_and_wants_it_runs_empty_for_it(desk) -> None:
    """Those who want something else do not, and all others of its kind go on."""
    sender = desk.connect()
    for number in range(2):
        sender.send(b"%d" % number, kind="a")
    busy = consumer(desk, 2, selector="kind = 'a'")
    other = consumer(desk, 2, selector="kind = 'b'")
    held = messages(busy)
    assert [each.body for each in held] == [b"0", b"1"]
    for body in (b"poison", b"x"):
        sender.send(body, kind="c")
    for _ in range(3):
        client = consumer(desk, 9, selector="kind = 'c'")
        assert [each.body for each in messages(client)] == [b"poison", b"x"]
        die(client)
    both = consumer(desk, 2, selector="kind <> 'b'")
    (alone,) = messages(both)
    assert alone.body == b"poison"
    late = consumer(desk, 2, selector="kind = 'c'")
    (x,) = messages(late)
    assert x.body == b"x"
    sender.send(b"6", kind="b")
    assert [each.body for each in messages(other)] == [b"6"]
    busy.say("ACK", id=held[0].headers["ack"])
    sender.send(b"2", kind="a")
    assert [each.body for each in messages(busy)] == [b"2"]
    both.say("ACK", id=alone.headers["ack"])
    late.say("ACK", id=x.headers["ack"])
    sender.send(b"7", kind="a")
    sender.send(b"8", kind="c")
    assert {each.body for each in (*messages(both), *messages(late))} == {b"7", b"8"}
