"""
The proof of a request that is passed on: what it covers, how long it is good, what is remembered.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from holdfast.admin import forwarding
from holdfast.admin.forwarding import (
    AGE_SECONDS_MAX,
    ForwardCheck,
    Forwarded,
    Taken,
    digest_of,
    is_forwarded,
    proof_in,
    proven_body,
    sign,
)
from holdfast.admin.process_mark import mark_of

SECRET = b"0123456789abcdef"
LIFE = "0a" * 16
REQUEST = Forwarded("POST", "/queues/a%2Fb/purge?x=y", "b", '["joe", "::1"]', LIFE)
NOW = 1_790_000_000


def header(request: Forwarded = REQUEST, at: int = NOW, body: bytes = b"{}") -> bytes:
    return sign(SECRET, request, body, now=at).encode()


def check(now: int = NOW) -> ForwardCheck:
    return ForwardCheck(SECRET, LIFE, lambda: now)


def test_it_is_good_for_this_request_and_no_other() -> None:
    """Each field counts, and none can be read as another's."""
    taken = check().take(header(), REQUEST)
    assert taken == Taken("", digest_of(b"{}"), proof_in(header().decode()) and taken.proof)
    assert check().take(header(REQUEST._replace(to=mark_of(LIFE))), REQUEST).refusal == ""
    assert is_forwarded(header())
    assert not is_forwarded(b"Bearer x")
    others = (
        REQUEST._replace(method="DELETE"),
        REQUEST._replace(path="/queues/a/b/purge?x=y"),
        REQUEST._replace(by="c"),
        REQUEST._replace(person='["ada", "::1"]'),
        REQUEST._replace(by="b" + REQUEST.person, person=""),
    )
    for other in others:
        assert "does not fit" in check().take(header(), other).refusal
    stranger = ForwardCheck(b"x" * 16, LIFE, lambda: NOW)
    assert "does not fit" in stranger.take(header(), REQUEST).refusal
    changed = header().replace(digest_of(b"{}").encode(), digest_of(b"x").encode())
    assert "does not fit" in check().take(changed, REQUEST).refusal
    moved = header().replace(str(NOW).encode(), str(NOW + 1).encode())
    assert "does not fit" in check().take(moved, REQUEST).refusal


@pytest.mark.parametrize("header", [b"Holdfast-Forward v=2", b"\xff", b""])
def test_what_makes_no_sense_is_refused(header: bytes) -> None:
    """And by what is no proof nobody is let in."""
    assert "is not known here" in check().take(header, REQUEST).refusal


def test_where_there_is_no_secret_nobody_is_let_in_by_one() -> None:
    """Anybody could sign by none; who has given one is told to leave it out."""
    refusal = ForwardCheck(b"", LIFE, lambda: NOW).take(header(), REQUEST).refusal
    assert "this node has none: leave out --secret-file" in refusal


@pytest.mark.parametrize("life", ["0b" * 16, ""])
def test_it_is_good_for_one_process_only(life: str) -> None:
    """
    Whoever saw it sends it neither to another node nor to the same one that was started anew,
    neither of which has seen it; and to whom is not changed on its way.
    """
    other = ForwardCheck(SECRET, life, lambda: NOW)
    assert "meant for another node" in other.take(header(), REQUEST).refusal
    readdressed = header().replace(LIFE.encode(), b"0b" * 16)
    assert other.take(readdressed, REQUEST).refusal
    meant = ForwardCheck(SECRET, "0b" * 16, lambda: NOW)
    assert "does not fit" in meant.take(readdressed, REQUEST).refusal
    assert not check().take(header(), REQUEST._replace(to="")).refusal


@pytest.mark.parametrize("seconds", [-AGE_SECONDS_MAX - 1, AGE_SECONDS_MAX + 1])
def test_clocks_may_differ_by_so_much(seconds: int) -> None:
    """And what was seen long ago is not remembered, but too old."""
    inside = seconds + (1 if seconds < 0 else -1)
    assert not check(NOW + inside).take(header(), REQUEST).refusal
    assert "look at the clocks" in check(NOW + seconds).take(header(), REQUEST).refusal


def test_it_is_taken_once_however_the_clocks_stand() -> None:
    """It is forgotten only when it is too old for this node's clock, from wherever it came."""
    now = [NOW]
    it = ForwardCheck(SECRET, LIFE, lambda: now[0])
    ahead = header(at=NOW + AGE_SECONDS_MAX)
    assert not it.take(ahead, REQUEST).refusal
    for seconds in range(0, 2 * AGE_SECONDS_MAX + 1, 5):
        now[0] = NOW + seconds
        assert "it came before" in it.take(ahead, REQUEST).refusal
    now[0] = NOW + 2 * AGE_SECONDS_MAX + 2
    assert "look at the clocks" in it.take(ahead, REQUEST).refusal
    assert not it.take(header(at=now[0]), REQUEST).refusal
    assert len(it._questions) + len(it._changes) == 1


def test_what_cannot_be_remembered_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is bounded, and nothing is forgotten early for it."""
    monkeypatch.setattr(forwarding, "REMEMBERED_MAX", 3)
    now = [NOW]
    it = ForwardCheck(SECRET, LIFE, lambda: now[0])
    first = header()
    assert not it.take(first, REQUEST).refusal
    assert [bool(it.take(header(), REQUEST).refusal) for _ in range(3)] == [False, False, True]
    assert "it came before" in it.take(first, REQUEST).refusal
    now[0] += 2 * AGE_SECONDS_MAX + 2
    assert not it.take(header(at=now[0]), REQUEST).refusal


def test_questions_leave_room_for_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may ask for the queues: whoever did so kept all changes from being passed on."""
    monkeypatch.setattr(forwarding, "REMEMBERED_MAX", 3)
    for method, other in (("GET", "POST"), ("DELETE", "HEAD")):
        it = check()
        asked, last = REQUEST._replace(method=method), REQUEST._replace(method=other)
        taken = [it.take(header(asked), asked) for _ in range(4)]
        assert [bool(found.refusal) for found in taken] == [False, False, False, True]
        assert not it.take(header(last), last).refusal


def received(messages: list[dict[str, Any]], digest: str) -> list[dict[str, Any]] | None:
    """Give what is received behind the proof, until it is at its end."""

    async def receive() -> dict[str, Any]:
        return messages.pop(0) if messages else {"type": "http.disconnect"}

    async def all_of_it() -> list[dict[str, Any]] | None:
        again = await proven_body(receive, digest)
        return None if again is None else [dict(await again()), dict(await again())]

    return asyncio.run(all_of_it())


def test_a_body_is_waited_for_and_handed_on() -> None:
    """In whatever pieces it comes; another one is none."""
    left = {"type": "http.disconnect"}
    whole = {"type": "http.request", "body": b"abc", "more_body": False}
    pieces = [{"type": "http.request", "body": b"a", "more_body": True}, whole | {"body": b"bc"}]
    assert received(list(pieces), digest_of(b"abc")) == [whole, left]
    assert received([whole], digest_of(b"xyz")) is None
    assert received([pieces[0]], digest_of(b"abc")) == [left, left]
    large = b"x" * (forwarding.BODY_BYTES_MAX + 1)
    assert received([whole | {"body": large}], digest_of(large)) is None


def test_who_is_refused_for_the_time_may_sign_anew_by_the_time_of_who_is_asked() -> None:
    """Clocks minutes apart part no cluster; one that is a day away, or none, is not gone by."""
    refused = {"error": {"code": "authentication", "message": "m", "clock": 1_420}}
    assert forwarding.clock_of(refused, now=1_000) == 1_420
    assert forwarding.clock_of(refused, now=1_420 + forwarding.SKEW_SECONDS_MAX) == 1_420
    assert forwarding.clock_of(refused, now=1_421 + forwarding.SKEW_SECONDS_MAX) is None
    for other in ({}, {"error": "x"}, {"error": {"clock": "1"}}, {"error": {"clock": True}}):
        assert forwarding.clock_of(other, now=1) is None
