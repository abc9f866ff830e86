"""
What one of many senders does with its rows, against a broker on paper.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import StoreError
from holdfast.spark.pipelines import replay_sender
from holdfast.spark.pipelines.replay_numbers import Beginning, Stretches
from holdfast.spark.pipelines.replay_spread import Sending, in_blocks, sent


def row(index: int, sequence: int, block: int, *, rewritten: bool = False) -> SimpleNamespace:
    return SimpleNamespace(
        log_index=index,
        ordinal=0,
        queue_number=1,
        sequence=sequence,
        block=block,
        rewritten=rewritten,
        destination="q",
        header_block=b"",
        body=b"%d" % sequence,
    )


def test_each_block_has_an_order_of_its_own() -> None:
    """A later block may stand earlier in the log; of copies the first of a block counts."""
    rows = [row(30, 7, 0), row(31, 8, 0), row(2, 10_003, 1), row(40, 10_003, 1, rewritten=True)]
    assert [it.sequence for it in in_blocks(rows, Stretches((Beginning(2, {1: 7}),)))] == [
        7,
        8,
        10_003,
    ]
    with pytest.raises(StoreError, match="came after"):
        list(in_blocks([row(31, 8, 0), row(30, 7, 0)], Stretches()))


def test_who_has_nothing_to_send_asks_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """There may be more senders than blocks."""
    asked: list[str] = []

    @asynccontextmanager
    async def connect(uri: str, **_: Any) -> AsyncIterator[None]:
        asked.append(uri)
        yield

    monkeypatch.setattr(replay_sender, "connect", connect)
    sending = Sending(job="j", target="/queue/x", stretches=Stretches(), uri="tcp://x", rate=None)
    assert list(sent(iter([]), sending)) == []
    assert asked == []
    assert "passcode" not in repr(
        Sending(
            job="j",
            target="/queue/x",
            stretches=Stretches(),
            uri="tcp://x",
            rate=None,
            client_options={"passcode": "secret"},
        )
    )
