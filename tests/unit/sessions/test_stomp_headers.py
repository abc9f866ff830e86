"""
Headers of requests: what is read from them, and what is refused.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import AcknowledgeMode
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError, RefusedError
from holdfast.sessions.stomp_headers import (
    no_room,
    read_mode,
    read_number,
    read_producer_id,
    unknown_name,
)


def test_modes_are_those_of_the_specification() -> None:
    """
    Anything else is named in the refusal, with what there is.
    """
    assert read_mode("client-individual") is AcknowledgeMode.INDIVIDUAL
    with pytest.raises(DestinationError, match="expected one of auto, client"):
        read_mode("sometimes")


@pytest.mark.parametrize("raw", [None, b"", b"x", b"-1", b"%d" % (1 << 63), b"\xff" * 100])
def test_numbers_have_limits(raw) -> None:
    """
    And a long one is not repeated whole.
    """
    assert read_number(b"%d" % ((1 << 63) - 1), "n") == (1 << 63) - 1
    with pytest.raises(RefusedError, match=r"header n: .{0,80} is not a number"):
        read_number(raw, "n")


def test_a_producer_id_has_bytes() -> None:
    """
    One at least, and not too many.
    """
    assert read_producer_id("p") == "p"
    for text in ("", "p" * 1000):
        with pytest.raises(RefusedError, match="producer-id"):
            read_producer_id(text)


def test_sentences_name_what_they_are_about() -> None:
    """
    A client's developer reads them.
    """
    assert "topic 't'" in no_room(Topic("t"))
    assert "memory" in no_room(Queue(1, "q"))
    assert "'5-6'" in str(unknown_name(b"5-6"))
