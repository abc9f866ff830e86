"""
The log over HTTP, asked in memory: no port is opened; slices come from a real file.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import Response

from holdfast.admin import log_api, reader_slots
from holdfast.admin.http_api import build_application
from holdfast.admin.log_api import PIECE_BYTES, REACH_BYTES_MAX, SLICE_BYTES_DEFAULT
from holdfast.admin.operations import Operations
from holdfast.admin.reader_slots import ReaderSlots
from holdfast.admin.remote import admin_token
from holdfast.admin.slices import Slices
from holdfast.admin.status import HoldRequest, HoldStatus, LogPosition
from holdfast.errors import RecordNotFoundError

SECRET = b"0123456789abcdef"


def request(
    node, method: str, path: str, *, client: str = "127.0.0.1", **options: Any
) -> httpx.Response:
    options = {"headers": {"authorization": f"Bearer {admin_token(SECRET)}"}, **options}
    application = build_application(Operations(node, secret=SECRET))

    async def send() -> httpx.Response:
        transport = httpx.ASGITransport(application, client=(client, 5000))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as session:
            return await session.request(method, path, **options)

    return asyncio.run(send())


def test_the_position_tells_where_the_log_ends_and_how_far_bytes_reach(node) -> None:
    """
    A reader plans its tasks by the segments and its next batch by the reach.
    """
    body = request(node, "GET", "/log/position?from=3&bytes=10").json()
    assert (1, 101, 13, [1, 50]) == (
        body["first_index"],
        body["commit_index"],
        body["through_index"],
        body["bases"],
    )


def test_the_position_is_told_without_its_segments(node) -> None:
    """Who asks again and again, or only which node leads, gets as little of the longest log."""
    whole = request(node, "GET", "/log/position?from=3&bytes=10").json()
    body = request(node, "GET", "/log/position?from=3&bytes=10&bases=false").json()
    assert whole.pop("bases") == [1, 50]
    assert body == whole


def test_the_position_of_a_long_log_is_written_some_at_a_time(
    node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A terabyte has 16,000 segments: all are told, and the loop is never long with them."""
    bases = tuple(range(1, 160_000, 10))
    position = node.log_position
    rests: list[Slices] = []
    rest = Slices.rest

    async def counted(slices: Slices) -> None:
        rests.append(slices)
        await rest(slices)

    def long(*arguments: int, with_bases: bool) -> LogPosition:
        return replace(position(*arguments, with_bases=with_bases), bases=bases)

    monkeypatch.setattr(node, "log_position", long, raising=False)
    monkeypatch.setattr(Slices, "rest", counted)
    body = request(node, "GET", "/log/position").json()
    assert (1, 101, list(bases)) == (body["first_index"], body["commit_index"], body["bases"])
    pieces = -(-len(bases) // 4096)
    assert rests.count(rests[0]) == pieces
    assert len(rests) == 2 * pieces + 2  # and one for each that is sent, and for the head


def test_a_reach_without_end_is_cut_short(node) -> None:
    """Each segment on the way takes the loop: who asks for more is told how far so much reaches."""
    body = request(node, "GET", f"/log/position?from=3&bytes={10**17}").json()
    assert body["through_index"] == 3 + REACH_BYTES_MAX


def asker(left: list[str] | None = None, name: str = "") -> Request:
    """A request of one who is there, or who has gone once its name is in `left`."""

    async def receive() -> dict[str, Any]:
        if left is not None and name in left:
            return {"type": "http.disconnect"}
        await asyncio.Event().wait()
        raise AssertionError

    request = Request({"type": "http", "query_string": b"", "headers": []}, receive)
    request._body = b""
    return request


def test_whoever_asks_for_all_segments_meanwhile_gets_the_same_ones(
    node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Twenty askers of a log of ten terabytes cost the loop what one does: before, each waited for all
    before it, gave up, and was served nevertheless.
    """
    made: list[int] = []
    position = node.log_position

    def counted(*arguments: int, with_bases: bool) -> LogPosition:
        if with_bases:
            made.append(1)
        return position(*arguments, with_bases=with_bases)

    monkeypatch.setattr(node, "log_position", counted, raising=False)
    interface = log_api.LogInterface(Operations(node, secret=SECRET))

    async def ask_all() -> list[bytes]:
        answers = await asyncio.gather(*(interface.position(asker()) for _ in range(20)))
        return [b"".join([bytes(it) async for it in each.body_iterator]) for each in answers]

    found = asyncio.run(ask_all())
    assert len(made) == 1
    assert {json.loads(each)["bases"][-1] for each in found} == {50}


def test_the_end_of_the_log_is_of_the_moment_of_the_answer(
    node, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who shares the list of another may have been told of more entries than there were then."""
    position = node.log_position
    ends = {True: 5, False: 101}

    def growing(*arguments: int, with_bases: bool) -> LogPosition:
        found = position(*arguments, with_bases=with_bases)
        return replace(found, commit_index=ends[with_bases])

    monkeypatch.setattr(node, "log_position", growing, raising=False)
    body = request(node, "GET", "/log/position").json()
    assert (101, [1, 50]) == (body["commit_index"], body["bases"])


def test_nothing_is_written_for_those_who_have_left(node) -> None:
    """An asker that gave up while the list was put together costs nothing more."""
    interface = log_api.LogInterface(Operations(node, secret=SECRET))

    async def ask() -> Response:
        return await interface.position(asker(["a"], "a"))

    assert asyncio.run(ask()).body == b""


def test_entries_come_as_they_are_in_the_file(node, tmp_path: Path) -> None:
    """
    More than one piece, and the headers say how to go on.
    """
    content = bytes(range(256)) * (PIECE_BYTES // 128)
    node.log = tmp_path / "log"
    node.log.write_bytes(b"head" + content + b"more")
    node.slice_bytes = len(content)

    answer = request(node, "GET", "/log?from=7&bytes=1000000&through=20")

    assert content == answer.content
    assert ("9", "101", "1", "c" * 32) == tuple(
        answer.headers[f"holdfast-{name}"]
        for name in ("next-index", "commit-index", "first-index", "cluster")
    )
    assert [("slice", 7, 1_000_000, 20)] == node.changes


def test_who_reads_beside_many_is_told_to_come_later(
    node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What has nothing new takes no slot; an answer gives its own back, read to the end or not."""
    slots = ReaderSlots()
    monkeypatch.setattr(log_api, "ReaderSlots", lambda: slots)
    monkeypatch.setattr(reader_slots, "SLOTS", 0)
    monkeypatch.setattr(reader_slots, "LEADER_SLOTS", 0)
    assert request(node, "GET", "/log?from=102").status_code == 200
    node.log = tmp_path / "log"
    node.log.write_bytes(bytes(3 * PIECE_BYTES))
    node.slice_bytes = 2 * PIECE_BYTES
    answer = request(node, "GET", "/log?from=7")
    assert (429, "busy") == (answer.status_code, answer.json()["error"]["code"])

    monkeypatch.setattr(reader_slots, "LEADER_SLOTS", 1)
    monkeypatch.setattr(reader_slots, "SLOTS", 1)
    for _ in range(3):
        assert len(request(node, "GET", "/log?from=7").content) == 2 * PIECE_BYTES
        assert len(slots) == 0
    monkeypatch.setattr(log_api.os, "pread", _fails)
    # Starlette 0.37 gives the error in a group.
    with pytest.raises((OSError, ExceptionGroup)):
        request(node, "GET", "/log?from=7")
    assert len(slots) == 0
    node.log.unlink()
    assert request(node, "GET", "/log?from=7").status_code == 410
    assert len(slots) == 0


def _fails(*_: object) -> bytes:
    raise OSError("the disk has gone")


def test_nothing_new_is_an_empty_answer(node) -> None:
    """
    A reader that has all asks again later; that is no error.
    """
    answer = request(node, "GET", "/log?from=102")
    assert (200, b"") == (answer.status_code, answer.content)
    assert node.changes[0][2] == SLICE_BYTES_DEFAULT


def test_a_segment_that_just_went_is_gone(node) -> None:
    """
    The cleaner may drop a file between the question and its opening.
    """
    node.slice_bytes = 10
    answer = request(node, "GET", "/log?from=7")
    assert (410, "log-gone") == (answer.status_code, answer.json()["error"]["code"])


def test_entries_that_were_dropped_are_gone(node) -> None:
    """
    The sentence of the node reaches the reader.
    """
    node.failure = RecordNotFoundError("begins with entry 50")
    answer = request(node, "GET", "/log?from=7")
    assert (410, "begins with entry 50") == (answer.status_code, answer.json()["error"]["message"])


def test_a_number_that_is_none_is_refused(node) -> None:
    """
    A misspelled question must not read from the beginning.
    """
    for query in ("", "?from=x", "?from=-1", "?from=1&bytes=1.5", "?from=%D9%A3", "?from=1_0"):
        assert request(node, "GET", f"/log{query}").status_code == 400


def test_the_log_is_for_those_who_know_the_secret(node) -> None:
    """
    It tells what messages say; where it begins and ends is for the same readers.
    """
    for client in ("10.1.1.1", "127.0.0.1"):
        for path in ("/log?from=1", "/log/position", "/holds"):
            assert request(node, "GET", path, client=client, headers={}).status_code == 403
            assert request(node, "GET", path, client=client).status_code == 200


def test_a_hold_is_set_listed_and_ended(node) -> None:
    """
    The bound may be left as it is.
    """
    held = {"name": "archive", "index": 5, "bytes_max": 7, "held_bytes": 0, "lost_through": 0}
    answer = request(node, "POST", "/holds/archive", json={"index": 5})
    ages = {"lost_because": "", "expiry_seconds": 0, "silent_seconds": 0.0}
    alarms = {"is_near_bound": False, "is_near_expiry": False}
    assert held | ages | alarms == answer.json()
    node.be(holds=(HoldStatus(name="archive", index=5, bytes_max=7),))
    assert request(node, "GET", "/holds").json()["holds"][0] == answer.json()
    assert request(node, "DELETE", "/holds/archive").json() == {"released": "archive"}
    assert node.changes == [("keep", "archive", HoldRequest(index=5)), ("release", "archive")]


def test_a_hold_that_makes_no_sense_is_refused(node) -> None:
    """
    Index 0 would end the hold by accident.
    """
    for body in (
        {"index": 0},
        {},
        {"index": 1, "bytes": 5},
        {"index": 1, "bytes_max": 0},
        {"index": 1, "expiry_seconds": 9},
        {"index": 1, "expiry_seconds": 400 * 86_400},
    ):
        assert request(node, "POST", "/holds/archive", json=body).status_code == 400
    assert request(node, "POST", "/holds/a%20b", json={"index": 1}).status_code == 400
    assert request(node, "DELETE", "/holds/nobody").status_code == 404
    assert node.changes == []
