"""
What is known of SENDs with other headers, and how much of it is kept.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.queue import Queue
from holdfast.protocols.stomp.frames import HeaderBlock, SendFrame
from holdfast.sessions.send_templates import (
    COUNT_MAX,
    SAID_LENGTH_MAX,
    AskedHeaders,
    SendTemplate,
    SendTemplates,
)
from holdfast.sessions.stomp_sending import resolve


def template(queue: Queue) -> SendTemplate:
    return SendTemplate(
        queue,
        is_wanted=True,
        is_kept=True,
        is_numbered=True,
        is_limited=False,
        priority=4,
        producer_id=None,
    )


def asked(**headers: str) -> AskedHeaders:
    """Headers of which all were asked for, and one more that is not there."""
    found = AskedHeaders(headers)
    for name in (*headers, "missing"):
        found.get(name)
    return found


def test_what_says_the_same_where_it_was_asked_is_known(desk) -> None:
    """
    Whatever else it says; but not with one more that would have been asked for.
    """
    templates, known = SendTemplates(), template(desk.broker.queue("q"))
    templates.keep(asked(destination="q"), known)

    assert templates.find({"destination": "q", "colour": "red"}) is known
    assert templates.find({"destination": "p"}) is None
    assert templates.find({"destination": "q", "missing": ""}) is None
    templates.forget()
    assert templates.find({"destination": "q"}) is None


def test_what_went_to_a_deleted_queue_is_not_known(desk) -> None:
    """
    The name means another one from then on.
    """
    templates, queue = SendTemplates(), desk.broker.queue("q")
    templates.keep(asked(destination="q"), template(queue))
    queue.delete()

    assert templates.find({"destination": "q"}) is None


@pytest.mark.parametrize("walked", [list, len])
def test_headers_that_were_walked_through_say_too_much(desk, walked) -> None:
    """
    What came of them may depend on all of them.
    """
    templates, headers = SendTemplates(), asked(destination="q")
    assert walked(headers)
    assert headers["destination"] == "q"
    templates.keep(headers, template(desk.broker.queue("q")))

    assert headers.said is None
    assert templates.find({"destination": "q"}) is None


def test_only_little_is_kept(desk) -> None:
    """
    No more than so many, and nothing of long headers.
    """
    templates, known = SendTemplates(), template(desk.broker.queue("q"))
    templates.keep(asked(destination="q" * (SAID_LENGTH_MAX + 1)), known)
    assert templates.find({"destination": "q" * (SAID_LENGTH_MAX + 1)}) is None
    for number in range(COUNT_MAX + 1):
        templates.keep(asked(destination=f"{number}"), known)
    assert templates.find({"destination": "0"}) is None
    assert templates.find({"destination": f"{COUNT_MAX}"}) is known


def test_the_next_with_other_headers_is_not_worked_out_again(desk, monkeypatch) -> None:
    """
    Though it has a name, a lifetime and a group of its own, it goes where the first went.
    """
    session = desk.connect().session
    first = SendFrame(HeaderBlock({"destination": "/queue/q"}, b""), None, None, b"x")
    resolve(session, first, is_copy=False)
    monkeypatch.setattr("holdfast.sessions.stomp_sending.parse_destinations", None)

    headers = {"destination": "/queue/q", "correlation-id": "7", "expires": "99999999999999"}
    other = SendFrame(HeaderBlock(headers, b"correlation-id:7\n"), None, None, b"y")
    target = resolve(session, other, is_copy=False)

    assert target.destination is desk.broker.queue("q")
    assert target.lines == b"correlation-id:7\n"
