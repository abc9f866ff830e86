"""
What a SEND may say of when its message is sent, and what is said of what makes no sense.
"""

from __future__ import annotations

import pytest

from holdfast.errors import ScheduleError
from holdfast.model.format_level import SCHEDULES_LEVEL
from holdfast.model.records import MessageRecord
from holdfast.model.schedules import FOREVER, SCHEDULE_QUEUE, Schedule
from holdfast.sessions.stomp_schedules import read_schedule
from holdfast.store.record_codec import decode_records

D, P, R = "AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT"
C, T, Z = "AMQ_SCHEDULED_CRON", "AMQ_SCHEDULED_TIME", "AMQ_SCHEDULED_TIME_ZONE"
NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({}, None),
        ({"colour": "red", Z: "Nowhere"}, None),
        ({D: "0"}, None),
        ({D: "", P: "", R: "", C: " ", T: "0"}, None),
        ({D: " 5 "}, Schedule(delay_ms=5)),
        ({D: "5", P: "7", R: "1000"}, Schedule(delay_ms=5, period_ms=7, repeats=1000)),
        ({P: "7", R: "-1"}, Schedule(period_ms=7, repeats=FOREVER)),
        ({P: "7", R: "-12345"}, Schedule(period_ms=7, repeats=FOREVER)),
        ({T: "9"}, Schedule(at_ms=9)),
        ({C: " 0  1 * * * "}, Schedule(cron="0 1 * * *", zone="Asia/Tokyo")),
        ({C: "0 1 * * *", Z: "UTC"}, Schedule(cron="0 1 * * *", zone="UTC")),
    ],
)
def test_the_headers_are_those_of_activemq(headers, expected) -> None:
    """
    With spaces around; what says nothing is nothing, and so is a delay of none.
    """
    assert read_schedule(headers, "Asia/Tokyo") == expected


@pytest.mark.parametrize(
    ("headers", "name"),
    [
        *(({D: text}, D) for text in ("soon", "-1", "1.5", "1e3", "9" * 19, "٣")),
        *(({P: text}, P) for text in ("soon", "-1")),
        *(({P: "5", R: text}, R) for text in ("often", "1001", "--1", "-0", "-", "1.5")),
        ({R: "3"}, R),
        ({R: "-1", P: "0"}, R),
        ({T: "yesterday"}, T),
        ({T: "5", D: "5"}, T),
        ({T: "5", C: "* * * * *"}, T),
        *(({C: text}, C) for text in ("soon", "* * * *", "99 * * * *", "* * * * * *")),
        ({C: "* * * * *", Z: "Mars/Base"}, Z),
    ],
)
def test_what_makes_no_sense_is_refused_with_header_and_value(headers, name) -> None:
    """
    Whoever reads it need not look for which of five it was.
    """
    with pytest.raises(ScheduleError) as told:
        read_schedule(headers, "UTC")
    assert name in str(told.value)
    assert headers[name] in str(told.value)


@pytest.mark.parametrize("headers", [{D: "soon"}, {C: "59 */23 */29 2 SUN#5"}, {D: str(10**15)}])
@pytest.mark.parametrize("is_transacted", [True, False])
def test_a_refused_schedule_leaves_nothing(desk, headers, is_transacted) -> None:
    """
    And the connection lives; a transaction that it was part of does not commit.
    """
    desk.broker.state.format_level = SCHEDULES_LEVEL
    client = desk.connect()
    if is_transacted:
        client.say("BEGIN", transaction="t")
        headers = {**headers, "transaction": "t"}
    error = client.refusal("SEND", destination="/queue/a", receipt="r", **headers)
    assert (error.headers["code"], error.headers["receipt-id"]) == ("schedule", "r")
    if is_transacted:
        assert client.refusal("COMMIT", transaction="t").headers["code"] == "transaction"
    records = [it for _, _, body in desk.log for it in decode_records(body)]
    assert not [it for it in records if isinstance(it, MessageRecord)]
    client.send(b"lives", receipt="s")
    desk.turn()
    assert [it.command for it in client.frames()] == ["RECEIPT"]


def test_lines_of_our_own_are_nobody_elses(desk) -> None:
    """
    A client that sends them does not decide where a message of the broker's goes.
    """
    desk.broker.state.format_level = SCHEDULES_LEVEL
    client = desk.connect()
    client.send(
        b"x",
        AMQ_SCHEDULED_DELAY="5",
        AMQ_SCHEDULED_DESTINATION="/queue/other",
        AMQ_SCHEDULED_LIFETIME="x",
        AMQ_SCHEDULED_PERSISTENT="false",
    )
    desk.turn()
    queue = desk.broker.state.by_name[SCHEDULE_QUEUE]
    lines = desk.read_message(queue.index.record_number(1)).headers
    assert lines.startswith(b"AMQ_SCHEDULED_DESTINATION:/queue/orders\n")
    assert (lines.count(b"DESTINATION"), lines.count(b"LIFETIME"), lines.count(b":false")) == (
        *(1, 0, 0),
    )
    assert queue.index.expires_ms(1) == NOW + 5


@pytest.mark.parametrize(
    ("destination", "persistent"),
    [("/topic/t", "true"), ("/topic/t", "false"), ("/queue/t", "false"), ("/queue/t", "true")],
)
@pytest.mark.parametrize("says_now", [{}, {C: "0 0 * * *", Z: "Gone/Zone"}])
def test_what_is_repeated_is_not_sent_at_once(desk, destination, persistent, says_now) -> None:
    """
    Its producer's number is stored with the schedule, whatever it goes to: it is confirmed.
    """
    desk.broker.state.format_level = SCHEDULES_LEVEL
    client, other = desk.connect(), desk.connect()
    other.subscribe(destination, ack="auto")
    said = {"destination": destination, "persistent": persistent, "receipt": "r", D: "60000"}
    number = {"producer_id": "p", "producer_sequence": "1"}
    for headers in (said, said | says_now):
        (frame,) = client.ask("SEND", b"x", **headers, **number)
        assert frame.command == "RECEIPT"
    assert other.bodies() == []
    assert desk.broker.queue(SCHEDULE_QUEUE).index.live_count == 1


def test_numbers_mean_nothing_in_a_transaction(desk) -> None:
    """
    There the COMMIT has one: a SEND that names one that is taken means what it says all the same.
    """
    desk.broker.state.format_level = SCHEDULES_LEVEL
    client = desk.connect()
    client.send(b"1", producer_id="p", producer_sequence="1")
    client.say("BEGIN", transaction="t")
    said = {"transaction": "t", "producer_id": "p", "producer_sequence": "1"}
    client.send(b"later", **said, AMQ_SCHEDULED_DELAY="60000")
    client.send(b"short", "/queue/short", **said, expires=str(NOW + 5))
    (frame,) = client.ask("COMMIT", transaction="t", receipt="r")
    assert frame.command == "RECEIPT"
    assert desk.broker.queue("orders").index.live_count == 1
    assert desk.broker.queue(SCHEDULE_QUEUE).index.live_count == 1
    assert desk.broker.queue("short").index.expires_ms(1) == NOW + 5
    error = client.refusal("SEND", destination="/queue/a", **said, AMQ_SCHEDULED_DELAY="soon")
    assert error.headers["code"] == "schedule"
