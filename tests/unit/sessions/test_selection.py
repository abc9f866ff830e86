"""The selectors of a node: each text is read once, and each message once for all of them."""

from __future__ import annotations

import gc

import pytest

from holdfast.broker.serving.message import TransientMessage
from holdfast.errors import SelectorError
from holdfast.sessions import selection
from holdfast.sessions.selection import Selections


def message(serial: int, lines: bytes = b"a:1\n") -> TransientMessage:
    return TransientMessage(-serial, lines, b"", 0)


def test_a_message_is_selected_by_what_it_says() -> None:
    """Also by what the broker knows of it: which topic it is on, and its id."""
    selections = Selections()
    texts = {
        "a = 1": True,
        "a = 2": False,
        "JMSDestination = 'topic://t' AND JMSMessageID LIKE 'ID:c-0-t1.%'": True,
    }
    for text, is_wanted in texts.items():
        selection = selections.read(text, "topic://t", "ID:c-0-t1.")
        assert selection.selects(message(1)) is is_wanted


def test_a_text_is_read_once_while_somebody_has_it() -> None:
    """Ten thousand consumers with the same one; each is charged for it, as the last may stay."""
    selections = Selections()
    first, second = (selections.read("a = 1", "topic://t", "ID:") for _ in range(2))
    assert first._selector is second._selector
    assert first.cost_bytes == second.cost_bytes > 0
    assert first.effort == 1
    assert len(selections._selectors) == 1
    del first, second
    gc.collect()
    assert not selections._selectors


def test_what_a_message_says_is_read_for_all_and_dropped_with_the_next() -> None:
    """Its body is not kept, and with the end of all sessions nothing is."""
    selections = Selections()
    one, two = message(1), message(2)
    values = selections.values_of(one, "topic://t", "ID:")
    assert selections.values_of(one, "topic://t", "ID:") is values
    assert selections.values_of(two, "topic://t", "ID:") is not values
    selections.clear()
    assert selections._values is None


def test_what_cannot_be_read_is_refused_and_not_kept() -> None:
    """The sentence is the session's to tell."""
    selections = Selections()
    with pytest.raises(SelectorError, match="column 4"):
        selections.read("a =", "topic://t", "ID:")
    assert not selections._selectors


def test_of_selectors_that_policies_have_the_oldest_is_forgotten_first(monkeypatch) -> None:
    """
    One alone: to forget all of them let a SEND to a list of sixty read all of its own again.
    """
    selections = selection.Selections()
    cost = selections.of_policy("a = 1").cost_bytes
    monkeypatch.setattr(selection, "_OF_POLICIES_BYTES_MAX", 3 * cost)
    kept = [selections.of_policy(f"a = {number}") for number in range(1, 4)]
    assert [selections.of_policy(f"a = {number}") for number in range(1, 4)] == kept
    selections.of_policy("a = 4")
    assert [selections.of_policy(f"a = {number}") for number in (2, 3)] == kept[1:]
    assert selections.of_policy("a = 1") is not kept[0]
    monkeypatch.setattr(selection, "_OF_POLICIES_BYTES_MAX", 1)
    newest = selections.of_policy("a = 5")
    assert selections.of_policy("a = 5") is newest
    assert len(selections._of_policies) == 1
