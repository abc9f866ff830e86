"""
Which names are those of virtual topics, and which of queues that consume them.
"""

from __future__ import annotations

import pytest

from holdfast.model.virtual_topics import (
    DEFAULT_FORM,
    Form,
    form_of,
    is_virtual,
    require_postfix,
    require_prefix,
)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("VirtualTopic", True),
        ("VirtualTopic.a", True),
        ("VirtualTopic.a.b", True),
        ("VirtualTopics", False),
        ("virtualtopic.a", False),
        ("a.VirtualTopic.b", False),
        ("", False),
    ],
)
def test_a_topic_is_virtual_by_its_first_part(name: str, expected: bool) -> None:
    """
    As ActiveMQ's `VirtualTopic.>` has it.
    """
    assert is_virtual(name) is expected
    assert form_of(name) == (DEFAULT_FORM if expected else None)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Consumer.A.VirtualTopic.a", "VirtualTopic.a"),
        ("Consumer.A.VirtualTopic.a.b", "VirtualTopic.a.b"),
        ("Consumer.A.VirtualTopic", "VirtualTopic"),
        ("Consumer.A.B.VirtualTopic.a", "B.VirtualTopic.a"),
        ("Consumer..VirtualTopic.a", None),
        ("Consumer.VirtualTopic.a", "a"),
        ("Consumer.A.orders", "orders"),
        ("Consumer.", None),
        ("consumer.A.VirtualTopic.a", None),
        ("VirtualTopic.a", None),
    ],
)
def test_a_queue_consumes_one_by_its_name(name: str, expected: str | None) -> None:
    """
    One part stands for the application.
    """
    assert DEFAULT_FORM.topic_of(name) == expected


@pytest.mark.parametrize(
    ("prefix", "postfix", "queue", "expected"),
    [
        ("VTC.*.", "", "VTC.a.orders.eu", "orders.eu"),
        ("VTC.*.", "", "VTC..orders", None),
        ("*.*.", ".q", "a.b.orders.q", "orders"),
        ("*.*.", ".q", "a.b.orders", None),
        ("*.*.", ".q", "a.b..q", None),
        ("all.", "", "all.orders", "orders"),
        ("all.", "", "all", None),
        ("all.", "", "allx.orders", None),
    ],
)
def test_other_forms_have_other_parts(
    prefix: str, postfix: str, queue: str, expected: str | None
) -> None:
    """
    A star is any one part; what stands behind the name is a part of none.
    """
    form = Form(prefix, postfix)
    assert form.topic_of(queue) == expected
    assert expected is None or queue.startswith(form.head)


@pytest.mark.parametrize(
    "prefix", ["", "a", "a.b", ".", "a..b.", "a*.", ">.", "a,b.", "$a.", "a\n."]
)
def test_a_prefix_that_cannot_be_is_refused(prefix: str) -> None:
    """
    It is whole parts, with a dot at the end.
    """
    with pytest.raises(ValueError, match=r"parts|stands|called"):
        require_prefix(prefix)


def test_a_postfix_has_no_wildcards() -> None:
    """
    Anything else may stand there.
    """
    require_postfix("")
    require_postfix(".queue-of it")
    for wrong in (".*", ">", "a,b", "\n"):
        with pytest.raises(ValueError, match="stand for nothing"):
            require_postfix(wrong)
