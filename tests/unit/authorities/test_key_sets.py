"""The keys of an issuer: asked for when needed, not more often, and not for ever."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

from holdfast.authorities import key_sets
from holdfast.authorities.key_sets import KeySet, parse_keys, read_keys
from holdfast.authorities.options import JwtOptions
from holdfast.errors import AuthenticationError

KEYS = {it: ec.generate_private_key(ec.SECP256R1()) for it in ("one", "two")}


def public(name: str, **more: Any) -> dict[str, Any]:
    """A key as a set of keys has it."""
    made: dict[str, Any] = json.loads(ECAlgorithm.to_jwk(KEYS[name].public_key()))
    return {**made, "kid": name, **more}


def text(*keys: Any) -> bytes:
    """A set of keys."""
    return json.dumps({"keys": list(keys)}).encode()


def options(keys: str = "https://issuer.example/keys", **more: Any) -> JwtOptions:
    """An issuer's."""
    return JwtOptions(name="idp", issuer="https://issuer.example", audience="b", keys=keys, **more)


class Issuer:
    """An issuer whose answers a test decides, and a clock."""

    def __init__(self) -> None:
        self.answer: bytes | Exception = text(public("one"))
        self.asked = 0
        self.now = 100.0
        self.keys = KeySet(options(), fetch=self.fetch, clock=lambda: self.now)

    def fetch(self, _options: JwtOptions) -> bytes:
        """Answer."""
        self.asked += 1
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def settle(self) -> None:
        """Wait until nobody asks any more."""
        with self.keys._changed:
            assert self.keys._changed.wait_for(lambda: not self.keys._is_reading, 20)

    def names(self, key_id: str = "") -> list[str]:
        """The names of the keys that are given."""
        return [it.key_id for it in self.keys.keys(key_id)]


def test_keys_are_asked_for_once_and_again_after_their_time() -> None:
    """What was read is good for its time, and what was taken back counts no more after it."""
    issuer = Issuer()
    assert issuer.names("one") == issuer.names() == ["one"]
    assert issuer.asked == 1
    issuer.answer = text(public("two"))
    issuer.now += 3_599
    assert issuer.names("one") == ["one"]
    issuer.now += 1
    assert issuer.names("one") == ["one"]
    issuer.settle()
    assert issuer.names("one") == []
    assert issuer.names("two") == ["two"]
    assert issuer.asked == 2


def test_an_unknown_key_is_asked_for_but_not_for_everybody_who_says_its_name() -> None:
    """An issuer that has a new key is known to have it; names that are made up cost nothing."""
    issuer = Issuer()
    assert issuer.names("two") == []
    assert issuer.asked == 1
    issuer.answer = text(public("one"), public("two"))
    for number in range(100):
        assert issuer.names(f"made up {number}") == []
    assert issuer.asked == 1
    issuer.now += 30
    assert issuer.names("two") == ["two"]
    assert issuer.asked == 2


@pytest.mark.parametrize("failure", [OSError("no route"), ValueError("that is no JSON")])
def test_an_issuer_that_does_not_answer_is_not_missed_while_its_keys_are_there(
    failure: Exception,
) -> None:
    """What it said last goes on, and it is asked again after a moment."""
    issuer = Issuer()
    assert issuer.names("one") == ["one"]
    issuer.answer = failure
    issuer.now += 4_000
    assert issuer.names("one") == ["one"]
    issuer.settle()
    assert issuer.names("one") == ["one"]
    assert issuer.asked == 2
    issuer.answer = text(public("two"))
    issuer.now += 5
    assert issuer.names("one") == ["one"], "it is asked, and what is there goes on meanwhile"
    issuer.settle()
    assert issuer.names("one") == []


def test_without_any_keys_it_is_said_that_they_cannot_be_read() -> None:
    """Nobody is taken for a liar because the issuer is away, and not everybody asks it."""
    issuer = Issuer()
    issuer.answer = OSError("no route")
    for _ in range(3):
        with pytest.raises(AuthenticationError, match=r"keys of jwt\.idp cannot be read now"):
            issuer.names("one")
    assert issuer.asked == 1


def test_an_issuer_that_hangs_holds_up_nobody_whose_key_is_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A stranger who makes up a name of a key has it asked; he waits, and nobody else does."""
    issuer = Issuer()
    assert issuer.names("one") == ["one"]
    issuer.now += 31
    hanging = Event()
    monkeypatch.setattr(key_sets, "FETCH_SECONDS_MAX", 0.1)
    monkeypatch.setattr(issuer.keys, "_fetch", lambda _options: hanging.wait(20) and b"{}")
    with pytest.raises(AuthenticationError, match="cannot be read now"):  # After its time.
        issuer.names("made up")
    assert issuer.keys._is_reading
    monkeypatch.setattr(key_sets, "FETCH_SECONDS_MAX", 20.0)
    with pytest.raises(AuthenticationError, match="are being read, try again in a moment"):
        issuer.names("made up too")  # At once: one asks.
    assert issuer.names("one") == ["one"]
    issuer.now += 4_000
    assert issuer.names("one") == ["one"]
    hanging.set()
    issuer.settle()
    assert issuer.names("one") == ["one"]


def test_a_new_key_is_not_called_wrong_while_the_issuer_is_away() -> None:
    """Its tokens are good as far as anybody knows; once it has answered there is a word on them."""
    issuer = Issuer()
    assert issuer.names("one") == ["one"]
    issuer.now += 31
    issuer.answer = OSError("no route")
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="cannot be read now, try again in a moment"):
            issuer.names("two")
        assert issuer.names("one") == ["one"]
    assert issuer.asked == 2
    issuer.now += 5
    issuer.answer = text(public("two"))
    assert issuer.names("two") == ["two"]
    assert issuer.names("one") == []


def test_without_any_keys_who_waits_for_them_waits_for_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And is told that it is not his fault."""
    issuer = Issuer()
    hanging = Event()
    monkeypatch.setattr(key_sets, "FETCH_SECONDS_MAX", 0.1)
    monkeypatch.setattr(issuer.keys, "_fetch", lambda _options: hanging.wait(20) and b"{}")
    for _ in range(2):
        with pytest.raises(AuthenticationError, match="cannot be read now"):
            issuer.names("one")
    hanging.set()
    issuer.settle()


def test_what_is_no_public_key_for_signatures_is_passed_over() -> None:
    """Keys for encryption, shared secrets, private ones and what makes no sense are not used."""
    private = json.loads(ECAlgorithm.to_jwk(KEYS["one"]))
    rows: list[Any] = [
        *(public("one", use="enc"), private, {"kty": "oct", "k": "AAAA"}, "no object", 7),
        *({"kty": "EC", "crv": "P-256", "x": "!", "y": 3}, {"kty": "RSA"}, public("one", kid=5)),
        public("two", use="sig", alg="ES256"),
    ]
    (found,) = parse_keys(text(*rows))
    assert (found.key_id, found.kind, found.algorithm) == ("two", "EC", "ES256")


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b"<html>", "that is no JSON"),
        (b"[" * 100_000, "that is no JSON"),
        (b"[]", "it has no list 'keys'"),
        (b'{"keys": {}}', "it has no list 'keys'"),
        (text(*[{}] * 65), "65 keys; allowed: at most 64"),
    ],
)
def test_what_is_no_set_of_keys_is_refused(said: bytes, sentence: str) -> None:
    """Each with its reason."""
    with pytest.raises(ValueError, match=sentence):
        parse_keys(said)


def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    """For issuers that cannot be reached from here."""
    file = tmp_path / "keys.json"
    file.write_bytes(text(public("one")))
    (found,) = KeySet(options(str(file))).keys("one")
    assert found.key_id == "one"
    file.write_bytes(b" " * (key_sets.SET_BYTES_MAX + 1))
    with pytest.raises(ValueError, match="more than 256 KiB"):
        read_keys(options(str(file)))


@contextmanager
def served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    """An issuer on loopback."""
    server = HTTPServer(("127.0.0.1", 0), handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


_PAUSE = Event()
"""Never set: what drips waits by it."""


class _Issuing(BaseHTTPRequestHandler):
    def answer(self) -> None:
        """Give the keys, send elsewhere, or never come to an end."""
        if self.path == "/elsewhere":
            self.send_response(302)
            self.send_header("Location", "/keys")
            self.end_headers()
            return
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text(public("one")))
        if self.path == "/dripping":
            while True:
                try:
                    self.wfile.write(b" ")
                except OSError:
                    return
                _PAUSE.wait(0.02)
        if self.path == "/endless":
            while True:
                try:
                    self.wfile.write(b" " * 65_536)
                except OSError:
                    return

    do_GET = answer  # noqa: N815 - a name of Python's library

    def log_message(self, *_args: Any) -> None:
        """Say nothing."""


def test_keys_are_read_by_http_and_from_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A real server: its keys are read, where it sends us is not gone to, and not all is read."""
    with served(_Issuing) as url:
        (found,) = parse_keys(read_keys(options(f"{url}/keys")))
        assert found.key_id == "one"
        with pytest.raises(OSError, match="302"):
            read_keys(options(f"{url}/elsewhere"))
        with pytest.raises(ValueError, match="more than 256 KiB"):
            read_keys(options(f"{url}/endless"))
        monkeypatch.setattr(key_sets, "FETCH_SECONDS_MAX", 0.3)
        with pytest.raises(OSError, match="not whole after"):
            read_keys(options(f"{url}/dripping"))
