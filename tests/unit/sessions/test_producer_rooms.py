"""
Producers of users: each user's numbers are his own, and nobody's sending makes another's vanish.
"""

from __future__ import annotations

import pytest

from holdfast.model.format_level import NEWEST_LEVEL, OWNERS_LEVEL
from holdfast.model.limits import FLOOR_ID
from holdfast.model.records import ProducerRecord
from holdfast.protocols.stomp.frames import Frame
from holdfast.security.principal import Principal
from holdfast.store.record_codec import decode_records
from tests.unit.sessions.guarded import ALL, Guarded

ANN, EVE = "holdfast-user:ann:7:", "holdfast-user:eve:0:"
ORDERS, ELSEWHERE = "/queue/orders", "/queue/eve"


@pytest.fixture
def guarded(desk) -> Guarded:
    """Two users, each with a queue of his own."""
    made = Guarded(desk)
    made.add("ann", ["ann"], life=7)
    made.add("eve", ["eve"])
    made.grant("ann", ALL, "queue://orders")
    made.grant("eve", ALL, "queue://eve")
    return made


def sent(client, sequence: int, destination: str = ORDERS, **headers: str) -> Frame:
    """Send under the producer's number; gives the RECEIPT, or the ERROR."""
    (answer,) = client.ask(
        "SEND",
        f"{destination} {sequence}".encode(),
        destination=destination,
        receipt="r",
        **{"persistent": "true", "producer-id": "shop-1", "producer-sequence": str(sequence)},
        **headers,
    )
    return answer


def code(answer: Frame) -> str:
    """Give what an answer comes to."""
    return answer.headers.get("code", answer.command)


def known(guarded: Guarded) -> dict[str, int]:
    """Give the last number stored of each producer."""
    producers = guarded.desk.broker.state.producers
    return {each: producers.last(each) for each in producers.by_id}


def stored(guarded: Guarded, name: str = "orders") -> int:
    """Give how many messages a queue has."""
    return guarded.desk.broker.destinations.queue(name).lasting.index.live_count


def test_a_number_of_anothers_makes_nothing_of_his_vanish(guarded) -> None:
    """
    Eve takes the number that Ann comes to next: Ann's is confirmed because it is stored.
    """
    ann, eve = guarded.connect("ann"), guarded.connect("eve")
    for number in (1, 2):
        assert code(sent(ann, number)) == "RECEIPT"
    refused = sent(eve, 1000, ELSEWHERE)
    assert (code(refused), "3" in refused.headers["message"]) == ("producer-forgotten", False)
    assert code(sent(eve, 3, ELSEWHERE)) == "producer-forgotten"
    assert [code(sent(eve, number, ELSEWHERE)) for number in (1, 2, 3)] == ["RECEIPT"] * 3
    assert [code(sent(ann, number)) for number in (3, 4, 4)] == ["RECEIPT"] * 3
    assert (stored(guarded), stored(guarded, "eve")) == (4, 3)
    assert known(guarded) == {f"{ANN}shop-1": 4, f"{EVE}shop-1": 3}


def test_his_numbers_go_on_on_another_connection_and_under_another_leader(guarded) -> None:
    """
    A room is in the log; what is said of it names no room.
    """
    ann = guarded.connect("ann")
    for number in (1, 2):
        sent(ann, number)
    ann.leave()
    guarded.desk.fail_over()
    guarded.clients.clear()
    guarded.desk.broker.state.format_level = NEWEST_LEVEL
    ann = guarded.connect("ann")
    assert [code(sent(ann, number)) for number in (2, 3)] == ["RECEIPT"] * 2
    assert stored(guarded) == 3
    refused = sent(ann, 9).headers
    assert refused["code"] == "producer-sequence-gap"
    assert refused["message"].startswith("producer shop-1: expected sequence 4, found 9")


def numbered_by_nobody(desk, count: int) -> Guarded:
    """Let nobody in particular send so many, and then let there be users."""
    guarded = Guarded(desk)
    guarded.remove("root")
    before = guarded.connect()
    for number in range(1, count + 1):
        assert code(sent(before, number)) == "RECEIPT"
    before.leave()
    desk.turn()
    guarded.clients.clear()
    guarded.add("ann", ["ann"], life=7)
    guarded.grant("ann", ALL, "queue://orders")
    return guarded


def test_what_was_numbered_before_there_were_users_confirms_nothing(desk) -> None:
    """
    A producer that goes on is told that nothing is known of it; one that begins is new.
    """
    guarded = numbered_by_nobody(desk, 3)
    ann = guarded.connect("ann")
    for number in (2, 3, 4, 9):
        assert code(sent(ann, number)) == "producer-forgotten"
    assert [code(sent(ann, number)) for number in (1, 2, 3, 4, 4)] == ["RECEIPT"] * 5
    assert stored(guarded) == 3 + 4
    assert known(guarded) == {"shop-1": 3, f"{ANN}shop-1": 4}


@pytest.mark.parametrize("is_failed_over", [False, True])
def test_nothing_behind_a_first_message_that_was_refused_is_confirmed(desk, is_failed_over) -> None:
    """
    Its client has more of them under way, and sends these again to the next leader.
    """
    guarded = numbered_by_nobody(desk, 6)
    ann = guarded.connect("ann")
    assert code(sent(ann, 1, "/queue/forbidden")) == "forbidden"
    if is_failed_over:
        ann.leave()
        desk.fail_over()
        guarded.clients.clear()
        desk.broker.state.format_level = NEWEST_LEVEL
        ann = guarded.connect("ann")
    assert [code(sent(ann, n)) for n in (2, 3, 6, 7)] == ["producer-forgotten"] * 4
    assert [code(sent(ann, n)) for n in (1, 2)] == ["RECEIPT"] * 2
    assert stored(guarded) == 6 + 2


def test_one_that_was_connected_before_there_were_users_changes_rooms(desk) -> None:
    """
    Who may go on as nobody adds nothing to what was numbered before, nor has it confirmed.
    """
    guarded = Guarded(desk)
    guarded.remove("root")
    nobody = guarded.connect()
    for number in (1, 2):
        assert code(sent(nobody, number)) == "RECEIPT"
    desk.broker.access_book.anonymous = Principal("", frozenset({"guest"}))
    desk.broker.destinations.leadership.patterns.unsettle()
    guarded.clients.clear()
    guarded.add("ann", ["ann"], life=7)
    guarded.grant("guest", ALL, "queue://orders")
    nobody.session.principal = desk.broker.access_book.anonymous
    assert [code(sent(nobody, n)) for n in (2, 3)] == ["producer-forgotten"] * 2
    assert code(sent(nobody, 1)) == "RECEIPT"
    assert known(guarded) == {"shop-1": 2, "holdfast-user::0:shop-1": 1}
    assert stored(guarded) == 3


def test_who_goes_on_without_users_meets_no_number_of_before_them(desk) -> None:
    """
    The last user is removed while a producer of his runs: what it sends next was never stored.
    """
    guarded = numbered_by_nobody(desk, 6)
    ann = guarded.connect("ann")
    for number in (1, 2, 3):
        assert code(sent(ann, number)) == "RECEIPT"
    ann.leave()
    guarded.remove("ann")
    guarded.clients.clear()
    nobody = guarded.connect()
    assert [code(sent(nobody, n)) for n in (4, 5)] == ["producer-forgotten"] * 2
    assert [code(sent(nobody, n)) for n in (1, 2)] == ["RECEIPT"] * 2
    assert stored(guarded) == 6 + 3 + 2
    assert known(guarded)["holdfast-user::0:shop-1"] == 2


def test_nothing_changes_where_not_all_nodes_know_of_rooms(desk) -> None:
    """
    Neither in the log nor for clients; and what is said is no room, whatever it looks like.
    """
    guarded = Guarded(desk)
    desk.broker.state.format_level = OWNERS_LEVEL - 1
    root = guarded.connect("root")
    assert code(sent(root, 1)) == "RECEIPT"
    assert known(guarded) == {"shop-1": 1}
    desk.broker.state.format_level = OWNERS_LEVEL
    desk.broker.destinations.leadership.patterns.unsettle()
    assert code(sent(root, 2)) == "producer-forgotten"
    assert [code(sent(root, number)) for number in (1, 2)] == ["RECEIPT"] * 2
    assert known(guarded) == {"shop-1": 1, "holdfast-user:root:0:shop-1": 2}
    guarded.remove("root")
    nobody = guarded.connect()
    (answer,) = nobody.ask(
        "SEND",
        b"x",
        destination="/queue/a",
        persistent="true",
        receipt="r",
        **{"producer-id": "ann:7:x", "producer-sequence": "1"},
    )
    assert code(answer) == "RECEIPT"
    assert known(guarded)["holdfast-user::0:ann:7:x"] == 1


def test_whoever_has_the_name_again_is_another_one(guarded) -> None:
    """
    What he numbers from 1 on is new, however far the one before him came.
    """
    ann = guarded.connect("ann")
    for number in (1, 2, 3):
        sent(ann, number)
    guarded.remove("ann")
    guarded.clients.clear()
    guarded.add("ann", ["ann"], life=12)
    ann = guarded.connect("ann")
    assert [code(sent(ann, number)) for number in (1, 2)] == ["RECEIPT"] * 2
    assert stored(guarded) == 5


@pytest.mark.parametrize("said", ["holdfast-user:ann:7:shop-1", FLOOR_ID + "orders"])
def test_nobody_spells_himself_into_a_room(guarded, said) -> None:
    """
    What rooms begin with is refused, to SEND and to COMMIT.
    """
    eve = guarded.connect("eve")
    numbered = {"producer-id": said, "producer-sequence": "1", "receipt": "r"}
    wanted = {"destination": ELSEWHERE, "persistent": "true"}
    answers = eve.ask("SEND", b"x", **wanted, **numbered)
    eve.say("BEGIN", transaction="t")
    answers += eve.ask("COMMIT", transaction="t", **numbered)
    for answer in answers:
        assert answer.headers["message"].startswith("header producer-id: no client's begins with")
    assert known(guarded) == {}


@pytest.mark.parametrize("delay", [{}, {"AMQ_SCHEDULED_DELAY": "60000"}])
def test_who_may_not_send_any_more_is_told_so_also_of_what_is_stored(guarded, delay) -> None:
    """
    The right is looked at first: a refused message is never confirmed.
    """
    ann = guarded.connect("ann")
    assert code(sent(ann, 1, **delay)) == "RECEIPT"
    assert code(sent(ann, 1, **delay)) == "RECEIPT"
    guarded.grant("ann", "read", "queue://orders")
    assert [code(sent(ann, number, **delay)) for number in (1, 2)] == ["forbidden"] * 2
    assert known(guarded) == {f"{ANN}shop-1": 1}


def committed(client, **headers: str) -> Frame:
    """Commit a transaction with one message; gives the answer."""
    client.say("BEGIN", transaction="t")
    client.send(b"in it", ELSEWHERE if "eve" in client.connected_as else ORDERS, transaction="t")
    (answer,) = client.ask("COMMIT", transaction="t", receipt="r", **headers)
    return answer


def test_a_transaction_has_a_number_of_its_user(guarded) -> None:
    """
    Eve's commit under Ann's number lets Ann's be stored, and repeated.
    """
    ann, eve = guarded.connect("ann"), guarded.connect("eve")
    ann.connected_as, eve.connected_as = "ann", "eve"
    number = {"producer-id": "shop-1", "producer-sequence": "1"}
    assert [code(committed(each, **number)) for each in (eve, ann, ann)] == ["RECEIPT"] * 3
    assert (stored(guarded), stored(guarded, "eve")) == (1, 1)
    assert known(guarded) == {f"{ANN}shop-1": 1, f"{EVE}shop-1": 1}


FORGET = {"holdfast-forget": "orders-query", "holdfast-forget-before": "1000"}


def test_nobody_says_that_anothers_producers_are_done_with(guarded) -> None:
    """
    A name is known in the room of who says it, and so are those whom it forgets and shuts out.
    """
    ann, eve = guarded.connect("ann"), guarded.connect("eve")
    ann.connected_as, eve.connected_as = "ann", "eve"

    def batch(client, number: int, sequence: int = 1) -> str:
        (answer,) = client.ask(
            "SEND",
            b"row",
            destination=ELSEWHERE if client is eve else ORDERS,
            receipt="r",
            persistent="true",
            **{"producer-id": f"orders-query-{number}-a", "producer-sequence": str(sequence)},
        )
        return code(answer)

    assert [batch(each, 7) for each in (ann, eve)] == ["RECEIPT"] * 2
    assert code(committed(eve, **FORGET)) == "RECEIPT"
    guarded.desk.turn()
    assert batch(eve, 8) == "producer-finished"
    assert [batch(ann, 7, 2), batch(ann, 8)] == ["RECEIPT"] * 2
    assert set(known(guarded)) == {
        *(f"{ANN}orders-query-{number}-a" for number in (7, 8)),
        f"{FLOOR_ID}{EVE}orders-query",
    }


def test_who_may_write_nowhere_has_no_floor_in_the_log(guarded) -> None:
    """
    Nor makes the leader look through all producers.
    """
    guarded.add("guest", ["guest"])
    guarded.grant("guest", "read", "queue://orders")
    guest = guarded.connect("guest")
    guest.say("BEGIN", transaction="t")
    before = len(guarded.desk.log)
    refused = guest.refusal("COMMIT", transaction="t", receipt="r", **FORGET)
    assert refused.headers["code"] == "forbidden"
    assert "may write anywhere" in refused.headers["message"]
    written = [it for _, _, body in guarded.desk.log[before:] for it in decode_records(body)]
    assert not [it for it in written if isinstance(it, ProducerRecord)]


def test_a_floor_from_before_there_were_users_counts_until_the_user_has_said_one(guarded) -> None:
    """
    A late task stores nothing twice; and who was shut out by another's word can take it back.
    """
    record = ProducerRecord(f"{FLOOR_ID}orders-query", 9)
    guarded.desk.broker.receipts.add_records([record])
    guarded.desk.turn()
    ann = guarded.connect("ann")
    ann.connected_as = "ann"
    numbered = {"producer-id": "orders-query-7-a", "producer-sequence": "1", "receipt": "r"}
    wanted = {"destination": ORDERS, "persistent": "true", **numbered}
    (refused,) = ann.ask("SEND", b"late", **wanted)
    assert refused.headers["code"] == "producer-finished"
    said = {"holdfast-forget": "orders-query", "holdfast-forget-before": "7"}
    assert code(committed(ann, **said)) == "RECEIPT"
    (answer,) = ann.ask("SEND", b"not late", **wanted)
    assert code(answer) == "RECEIPT"


def test_who_may_write_nowhere_begins_no_producer_by_an_empty_commit(guarded) -> None:
    """
    It is confirmed, also said again, as it would be without a number, and nothing is in the log.
    """
    guarded.add("guest", ["guest"])
    guarded.grant("guest", "read", "queue://orders")
    guest, ann = guarded.connect("guest"), guarded.connect("ann")
    number = {"producer-id": "shop-1", "producer-sequence": "1", "receipt": "r"}
    for client in (guest, guest, ann, ann):
        client.say("BEGIN", transaction="t")
        (answer,) = client.ask("COMMIT", transaction="t", **number)
        assert code(answer) == "RECEIPT"
    assert known(guarded) == {f"{ANN}shop-1": 1}


def test_a_producer_goes_on_whose_user_may_only_read_by_now(guarded) -> None:
    """
    What was begun while it might write has no gap, when it may again.
    """
    ann = guarded.connect("ann")
    ann.connected_as = "ann"
    number = {"producer-id": "shop-1", "producer-sequence": "1"}
    assert code(committed(ann, **number)) == "RECEIPT"
    guarded.grant("ann", "read", "queue://orders")
    number["producer-sequence"] = "2"
    ann.say("BEGIN", transaction="t")
    (answer,) = ann.ask("COMMIT", transaction="t", receipt="r", **number)
    assert code(answer) == "RECEIPT"
    guarded.grant("ann", ALL, "queue://orders")
    number["producer-sequence"] = "3"
    assert code(committed(ann, **number)) == "RECEIPT"
    assert known(guarded) == {f"{ANN}shop-1": 3}
