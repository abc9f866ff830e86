"""
Histories: what is written can be read, whatever is cut off behind it, and bodies cannot lie.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trials.chaos.history import (
    History,
    HistoryError,
    HistoryFile,
    make_body,
    read_body,
    read_history,
)

NAMES = st.from_regex(r"[a-z][a-z0-9.-]{0,20}", fullmatch=True)


def write_lines(path, count: int = 5) -> bytes:
    with HistoryFile(path) as history:
        history.write("begin", w="h1", library="holdfast", numbered=True)
        for sequence in range(1, count):
            history.write("send", p="h1.p0", n=sequence, q="/queue/a")
    return path.read_bytes()


@given(NAMES, st.integers(1, 10**9))
def test_a_body_tells_its_message(producer, sequence):
    """What was made for a message is read as that message."""
    assert read_body(make_body(producer, sequence)) == (producer, sequence)


@given(NAMES, st.integers(1, 10**6), st.data())
def test_a_changed_body_is_nobodys(producer, sequence, data):
    """Any changed byte, and any cut, is seen."""
    body = bytearray(make_body(producer, sequence))
    place = data.draw(st.integers(0, len(body) - 1))
    cut = bytes(body[:place])
    body[place] ^= data.draw(st.integers(1, 255))

    assert read_body(bytes(body)) is None
    assert read_body(cut) is None


def test_lines_are_read_as_they_were_written(tmp_path):
    """Order and fields survive, and the time never goes back."""
    write_lines(tmp_path / "h1.jsonl")
    events = read_history(tmp_path / "h1.jsonl")

    assert [event["e"] for event in events] == ["begin", *["send"] * 4]
    assert [event["n"] for event in events[1:]] == [1, 2, 3, 4]
    assert [event["t"] for event in events] == sorted(event["t"] for event in events)


def test_a_torn_last_line_is_left_out(tmp_path):
    """A killed worker may leave half a line; wherever it is torn, the lines before it count."""
    path = tmp_path / "h1.jsonl"
    whole = write_lines(path)
    for length in range(len(whole)):
        path.write_bytes(whole[:length])

        assert len(read_history(path)) == whole[:length].count(b"\n")


def test_a_broken_line_in_the_middle_is_an_error(tmp_path):
    """No death of a worker explains it, so nothing may be concluded from such a file."""
    path = tmp_path / "h1.jsonl"
    lines = write_lines(path).splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], b'{"t":5\n', *lines[2:]]))

    with pytest.raises(HistoryError, match="line 3"):
        read_history(path)


def test_a_delivery_says_whose_body_it_is(tmp_path):
    """A good body gives producer and sequence, another one a line of its own kind."""
    path = tmp_path / "h1.jsonl"
    with HistoryFile(path) as history:
        headers = {"message-id": "ID:1-2-3", "redelivered": "true"}
        good = history.delivery("c", "/queue/a", headers, make_body("p", 7))
        bad = history.delivery("c", "/queue/a", {"message-id": "ID:1-2-4"}, b"nonsense")
    delivery, damaged = read_history(path)

    assert good == ("p", 7)
    assert bad is None
    assert (delivery["e"], delivery["id"], delivery["r"]) == ("delivery", "ID:1-2-3", True)
    assert (damaged["e"], damaged["text"]) == ("damaged", "nonsense")


def test_workers_are_merged_by_time(tmp_path):
    """Lines of several workers stand in one order, and each knows its worker."""
    for name, times in (("a", (1, 4, 5)), ("b", (2, 3, 6))):
        lines = [{"t": t, "e": "send", "n": t} for t in times]
        lines[0] = {"t": times[0], "e": "begin", "w": name}
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    history = History.read(tmp_path.glob("*.jsonl"))
    lines = [(event["t"], event["w"]) for event in history if event["e"] != "died"]

    assert lines == [(1, "a"), (2, "b"), (3, "b"), (4, "a"), (5, "a"), (6, "b")]


def test_a_worker_without_a_last_word_has_died():
    """A history that does not end with `end` gets a `died` after its last line."""
    killed = [{"t": 1, "e": "begin", "w": "a"}, {"t": 2, "e": "send"}]
    ended = [{"t": 1, "e": "begin", "w": "b"}, {"t": 9, "e": "end"}]
    died = list(History.of([killed, ended]).of_kind("died"))

    assert [(event["t"], event["w"]) for event in died] == [(2, "a")]
