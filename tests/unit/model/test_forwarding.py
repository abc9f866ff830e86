"""
Where messages go that are sent to a composite destination, as it is written.
"""

from __future__ import annotations

import pytest

from holdfast.model.forwarding import read_forwards


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a", [("/queue/a", "")]),
        ("queue://a, topic://b", [("/queue/a", ""), ("/topic/b", "")]),
        ("/topic/a ,/queue/b,", [("/topic/a", ""), ("/queue/b", "")]),
        ("queue://a when x = 1, b", [("/queue/a", "x = 1"), ("/queue/b", "")]),
        (
            "queue://a WHEN x IN ('1', '2') AND y = 'p, q', topic://b when z <> ')'",
            [("/queue/a", "x IN ('1', '2') AND y = 'p, q'"), ("/topic/b", "z <> ')'")],
        ),
        (
            "queue://a when \"content-type\" = 'a',b",
            [("/queue/a", "\"content-type\" = 'a'"), ("/queue/b", "")],
        ),
    ],
)
def test_destinations_stand_with_commas_between(written: str, expected: list) -> None:
    """Each perhaps with a selector; a comma in quotes or parentheses is part of that."""
    found = [(str(it.destination), it.selector) for it in read_forwards(written)]
    assert found == expected


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", "0 destinations"),
        (" , ", "commas"),
        ("a,,b", "commas"),
        (",".join(f"q{n}" for n in range(65)), "65 destinations; allowed are 1 to 64"),
        ("a.>", "wildcards"),
        ("temp-queue://a", "only queues and topics"),
        ("/queue/a?consumer.x=1", "mean nothing here"),
        ("queue://", "has no name"),
        ("$schedule", "the broker's own"),
        ("topic://ActiveMQ.Advisory.Queue", "advisory messages"),
        ("a when ", None),
    ],
)
def test_what_cannot_be_is_refused(written: str, why: str | None) -> None:
    """With the reason."""
    if why is None:
        # 'when' without a selector behind it is part of a name.
        assert str(read_forwards(written)[0].destination) == "/queue/a when"
        return
    with pytest.raises(ValueError, match=why):
        read_forwards(written)
