"""
What is scheduled, looked at and taken back by messages to ActiveMQ's management topic.
"""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import AcknowledgeRecord, FormatRecord, MoveRecord
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.store.record_codec import decode_records

TOPIC = "/topic/ActiveMQ.Scheduler.Management"
SECOND = 1_000


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    return desk


@pytest.fixture
def client(desk):
    client = desk.connect()
    client.subscribe("/temp-queue/jobs", id="jobs", ack="auto")
    desk.turn()
    return client


def schedule(desk, client, *bodies: str, **more: str) -> None:
    """One after the other, each a second later than the one before."""
    for number, body in enumerate(bodies, 1):
        headers = {"AMQ_SCHEDULED_DELAY": str(number * SECOND), **more}
        client.send(body.encode(), "/queue/later", **headers)
    desk.turn()


def ask(client, action: str, **headers: str) -> None:
    named = {"AMQ_SCHEDULER_ACTION": action, "destination": TOPIC, "reply-to": "/temp-queue/jobs"}
    lines = "".join(f"{name}:{value}\n" for name, value in (named | headers).items())
    client.raw(f"SEND\n{lines}\n\0".encode())


def manage(client, action: str, **headers: str) -> list:
    ask(client, action, **headers)
    client.desk.turn()
    return client.frames()


def shown(client, **headers: str) -> list:
    frames = manage(client, "BROWSE", **headers)
    assert {frame.command for frame in frames} <= {"MESSAGE"}
    return frames


def left(desk) -> int:
    return desk.broker.state.by_name[SCHEDULE_QUEUE].index.live_count


def test_each_job_is_shown_with_its_id_and_what_it_says(desk, client) -> None:
    """
    Under the correlation-id of who asks; nothing is taken, and they are sent as ever.
    """
    schedule(desk, client, "a", "b", colour="red")
    jobs = shown(client, **{"correlation-id": "x:1"})
    assert [each.body for each in jobs] == [b"a", b"b"]
    for each in jobs:
        assert each.headers["colour"] == "red"
        assert each.headers["correlation-id"] == "x:1"
        assert each.headers["AMQ_SCHEDULED_DESTINATION"] == "/queue/later"
        assert each.headers["scheduledJobId"].startswith("ID:c0ffee-")
    due = [int(each.headers["scheduledJobDue"]) for each in jobs]
    assert due[1] - due[0] == SECOND
    assert left(desk) == 2


def test_one_is_removed_by_its_id_and_its_receipt_is_of_what_is_stored(desk, client) -> None:
    """
    Nobody gets it then, under no leader; to remove it again is no mistake.
    """
    schedule(desk, client, "a", "b")
    job = shown(client)[0].headers["scheduledJobId"]
    (receipt,) = manage(client, "REMOVE", scheduledJobId=job, receipt="r")
    assert (receipt.command, receipt.headers["receipt-id"]) == ("RECEIPT", "r")
    assert [each.body for each in shown(client)] == [b"b"]
    assert [each.command for each in manage(client, "REMOVE", scheduledJobId=job, receipt="s")] == [
        "RECEIPT"
    ]
    records = [it for _, _, body in desk.log for it in decode_records(body)]
    assert sum(isinstance(it, MoveRecord) for it in records) == 1
    desk.fail_over()
    assert left(desk) == 1


def test_the_receipt_waits_for_the_log(desk, client) -> None:
    """
    Of one and of all: a leader that is lost before has removed nothing.
    """
    for number, action in enumerate(("REMOVEALL", "REMOVE"), 1):
        schedule(desk, client, "a")
        job = f"ID:c0ffee-{desk.broker.firing.queue.number}-{number}"
        lines = f"AMQ_SCHEDULER_ACTION:{action}\nscheduledJobId:{job}\nreceipt:r\n"
        client.raw(f"SEND\ndestination:{TOPIC}\n{lines}\n\0".encode())
        desk.broker.errands.finish()
        desk.dispatch()
        desk.confirm()
        assert client.frames() == []
        desk.turn()
        assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    assert left(desk) == 0


def test_those_of_a_time_are_shown_and_removed(desk, client) -> None:
    """
    From and to, both of them; either may be left out, and then all that is before or after.
    """
    schedule(desk, client, *"abcde")
    due = [each.headers["scheduledJobDue"] for each in shown(client)]
    middle = {"ACTION_START_TIME": due[1], "ACTION_END_TIME": due[3]}
    assert [each.body for each in shown(client, **middle)] == [b"b", b"c", b"d"]
    assert [each.body for each in shown(client, ACTION_START_TIME=due[3])] == [b"d", b"e"]
    assert manage(client, "REMOVEALL", **middle) == []
    assert [each.body for each in shown(client)] == [b"a", b"e"]
    manage(client, "REMOVEALL")
    assert (shown(client), left(desk)) == ([], 0)


def test_very_many_are_removed_in_steps(desk, client) -> None:
    """
    None of them is long; what was scheduled meanwhile stays.
    """
    schedule(desk, client, *["x"] * 200)
    lines = "AMQ_SCHEDULER_ACTION:REMOVEALL\nreceipt:r\n"
    client.raw(f"SEND\ndestination:{TOPIC}\n{lines}\n\0".encode())
    assert desk.broker.receipts.batch.moved_count <= 64
    client.send(b"new", "/queue/later", AMQ_SCHEDULED_DELAY="5000")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    assert [each.body for each in shown(client)] == [b"new"]


def test_what_the_cleaner_is_about_to_write_again_is_removed_all_the_same(desk, client) -> None:
    """
    It is settled then: a move cannot say it just now.
    """
    schedule(desk, client, "a", "b")
    queue = desk.broker.firing.queue
    desk.broker.moving.closed_through = queue.index.record_number(1)
    (receipt,) = manage(client, "REMOVEALL", receipt="r")
    assert receipt.command == "RECEIPT"
    assert left(desk) == 0
    records = [it for _, _, body in desk.log for it in decode_records(body)]
    settled = [it for it in records if isinstance(it, AcknowledgeRecord)]
    assert [it.sequences for it in settled if it.queue_number == queue.number] == [[1]]
    desk.fail_over()
    assert left(desk) == 0


def test_what_is_being_removed_is_not_sent_though_it_is_due(desk, client) -> None:
    """
    In the same turn: from the word on it is nobody's.
    """
    schedule(desk, client, "a")
    lines = "AMQ_SCHEDULER_ACTION:REMOVEALL\n"
    client.raw(f"SEND\ndestination:{TOPIC}\n{lines}\n\0".encode())
    desk.broker.sending.now_microseconds += 10_000_000
    assert desk.broker.firing.due(10) == []
    desk.turn()
    assert left(desk) == 0


def test_no_more_are_shown_than_so_many_and_what_cannot_be_read_is_left_out(
    desk, client, monkeypatch
) -> None:
    """
    A time narrows it down.
    """
    monkeypatch.setattr("holdfast.sessions.schedule_management.SHOWN_MAX", 3)
    schedule(desk, client, *"abcde")
    assert [each.body for each in shown(client)] == [b"a", b"b", b"c"]
    queue = desk.broker.firing.queue
    queue.leadership.flow.forget(queue.cache, [1, 2])
    assert [each.body for each in shown(client)] == [b"a", b"b", b"c"]
    queue.leadership.flow.forget(queue.cache, [1, 2])
    desk.unreadable = CorruptEntryError("rot")
    assert [each.body for each in shown(client)] == [b"c", b"d", b"e"]


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        ({"AMQ_SCHEDULER_ACTION": "STOP"}, "expected one of BROWSE, REMOVE, REMOVEALL"),
        ({"AMQ_SCHEDULER_ACTION": ""}, "expected one of"),
        ({"AMQ_SCHEDULER_ACTION": "BROWSE", "reply-to": ""}, "reply-to"),
        ({"AMQ_SCHEDULER_ACTION": "REMOVE"}, "'' is no id of a job"),
        (
            {"AMQ_SCHEDULER_ACTION": "REMOVE", "scheduledJobId": "ID:other-1-1"},
            "no id of a job of this cluster",
        ),
        (
            {"AMQ_SCHEDULER_ACTION": "REMOVEALL", "ACTION_START_TIME": "now"},
            "expected milliseconds since 1970",
        ),
        (
            {"AMQ_SCHEDULER_ACTION": "REMOVEALL", "ACTION_END_TIME": "9" * 30},
            "expected milliseconds since 1970",
        ),
        ({"AMQ_SCHEDULER_ACTION": "REMOVEALL", "transaction": "t"}, "not in a transaction"),
    ],
)
def test_what_makes_no_sense_removes_nothing(desk, client, headers, said) -> None:
    """
    And says what was expected.
    """
    schedule(desk, client, "a")
    if "transaction" in headers:
        client.say("BEGIN", transaction="t")
    action = headers.pop("AMQ_SCHEDULER_ACTION")
    (error,) = manage(client, action, **headers)
    assert error.command == "ERROR"
    assert said in error.headers["message"]
    assert left(desk) == 1


def test_nobody_can_consume_from_it(desk) -> None:
    """
    Who subscribed would wait for ever.
    """
    error = desk.connect().refusal("SUBSCRIBE", destination=TOPIC, id="1")
    assert error.headers["code"] == "destination"
    assert "not served" in error.headers["message"]


def test_where_nothing_was_ever_scheduled_there_is_nothing(client) -> None:
    """
    No job, and no mistake.
    """
    assert shown(client) == []
    assert [frame.command for frame in manage(client, "REMOVEALL", receipt="r")] == ["RECEIPT"]
    job = "ID:c0ffee-1-1"
    (receipt,) = manage(client, "REMOVE", scheduledJobId=job, receipt="r")
    assert receipt.command == "RECEIPT"


@pytest.mark.parametrize("action", ["BROWSE", "REMOVEALL"])
def test_of_those_that_look_through_many_only_so_many_wait(desk, client, action) -> None:
    """
    What comes beyond is refused, and the connection lives; later it may ask again.
    """
    schedule(desk, client, *(f"{number}" for number in range(200)))
    headers = {"ACTION_START_TIME": "1", "ACTION_END_TIME": "2"}
    for _ in range(40):
        ask(client, action, **headers)
    refused = client.frames()
    assert len(refused) == 40 - 16
    assert {frame.headers["code"] for frame in refused} == {"limit-reached"}
    desk.turn()
    assert not desk.broker.errands
    assert manage(client, action, **headers) == []
    assert left(desk) == 200


def test_what_takes_back_many_is_bounded_for_all_and_goes_on_for_who_is_gone(desk, client) -> None:
    """
    A client that asks for it and leaves has it done; one that does so again and again has not.
    """
    schedule(desk, client, *(f"{number}" for number in range(200)))
    firing = desk.broker.firing
    others = [desk.connect() for _ in range(20)]
    for each in others:
        ask(each, "REMOVEALL", **{"reply-to": "/queue/replies"})
        each.leave()
    assert firing.removal_count == 16
    desk.turn()
    assert (left(desk), firing.removal_count) == (0, 0)
    assert manage(client, "REMOVEALL") == []
