"""
How an admin port is asked: addresses, whose certificate is believed, and what goes wrong in words.
"""

from __future__ import annotations

import ssl
from http.client import BadStatusLine
from pathlib import Path

import pytest

from holdfast.admin import endpoint as module
from holdfast.admin.endpoint import (
    ClosedError,
    Endpoint,
    Files,
    addressed,
    knocked,
    spoken_in_clear,
)
from holdfast.errors import CertificateError, ConfigError, LinkLostError
from holdfast.transport.certificates import make_client, make_node, open_authority


def test_an_address_is_read_in_each_of_its_forms() -> None:
    """What is in clear needs no scheme; by TLS the files stand in it, as in a client's URI."""
    assert Endpoint.parse("h:8161") == Endpoint("h:8161")
    assert Endpoint.parse(" http://h:8161/ ") == Endpoint("h:8161")
    assert Endpoint.parse("https://[::1]:8161") == Endpoint("[::1]:8161", Files())
    text = "https://h:1?caFile=/a/ca%20new.pem&certificateFile=me.pem&keyFile=me.key"
    found = Endpoint.parse(text)
    assert found.files == Files("/a/ca new.pem", "me.pem", "me.key")
    assert str(found) == "https://h:1"
    assert addressed("h:1", found.files) == text


@pytest.mark.parametrize(
    "text",
    [
        "ftp://h:1",
        "https://h",
        "https://:1",
        "https://h:x",
        "https://joe:word@h:1",
        "https://h:1/path",
        "https://h:1?cafile=x",
        "http://h:1?caFile=x",
        "https://",
    ],
)
def test_what_is_no_address_is_refused_without_its_secrets(text: str) -> None:
    """A misspelled option is not passed over: who believes that he is safe finds out here."""
    with pytest.raises(ConfigError) as refused:
        Endpoint.parse(text)
    assert "word" not in str(refused.value).replace("joe:word@h:1", "")


def test_another_node_is_asked_by_the_same_files() -> None:
    """What a node tells of another is where it is; what to believe, its asker knows."""
    asked = Endpoint.parse("https://a:1?caFile=ca.pem")
    assert asked.beside("https://b:1") == "https://b:1?caFile=ca.pem"
    assert asked.beside("https://b:1?caFile=other.pem") == "https://b:1?caFile=other.pem"
    assert asked.beside("b:1") == "b:1"
    assert Endpoint.parse("a:1").beside("https://b:1") == "https://b:1"


def ssl_error(reason: str) -> ssl.SSLError:
    error = ssl.SSLError(1, "long words")
    error.reason = reason  # type: ignore[assignment]
    return error


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (ssl_error("WRONG_VERSION_NUMBER"), LinkLostError, "does not speak TLS; ask it as h:1, in"),
        (ssl_error("TLSV1_ALERT_UNKNOWN_CA"), CertificateError, "refuses our certificate: it does"),
        (ssl_error("TLSV13_ALERT_CERTIFICATE_REQUIRED"), CertificateError, "?certificateFile="),
        (ssl_error("INTERNAL_ERROR"), LinkLostError, "no answer from the admin port https://h:1"),
        (ClosedError(104, "Connection reset by peer"), LinkLostError, "without a word, for 5 s"),
        (ConnectionRefusedError(111, "Connection refused"), LinkLostError, "Connection refused"),
    ],
)
def test_what_goes_wrong_says_what_to_do(error: Exception, kind: type, words: str) -> None:
    """Each in one sentence, which names the port."""
    found = Endpoint.parse("https://h:1?caFile=ca.pem").failure(error)
    assert type(found) is kind
    assert words in str(found)
    assert "https://h:1" in str(found)


def test_a_certificate_that_is_not_believed_says_how_to_believe_it() -> None:
    """Only where no authority was named."""
    error = ssl.SSLCertVerificationError(1, "long words")
    error.verify_message = "unable to get local issuer certificate"
    assert "name its authority by ?caFile=" in str(Endpoint.parse("https://h:1").failure(error))
    named = Endpoint.parse("https://h:1?caFile=ca.pem").failure(error)
    assert str(named).endswith("is not trusted: unable to get local issuer certificate")


def test_a_port_by_tls_of_somebody_else_is_known_by_how_it_ends() -> None:
    """An alert of TLS where a status line of HTTP was waited for."""
    plain = Endpoint("h:1")
    told = str(plain.failure(BadStatusLine("\x15\x03\x03\x00\x02")))
    assert told == str(spoken_in_clear(plain))
    assert "h:1 speaks TLS: ask it as https://h:1" in told
    assert "no answer" in str(plain.failure(BadStatusLine("what")))


def test_files_that_cannot_be_used_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the address, else those of the environment; a renewed one is read again."""
    authority, _ = open_authority(tmp_path)
    make_node(authority, tmp_path / "a.pem", "a", [], 1)
    make_client(authority, tmp_path / "joe.pem", "joe", 1)
    missing = tmp_path / "missing.pem"
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        Endpoint("h:1", Files(str(missing))).connection(1)
    monkeypatch.setenv("HOLDFAST_CERTIFICATE_FILE", str(missing))
    with pytest.raises(ConfigError, match=r"missing\.pem"):
        Endpoint("h:1", Files(str(tmp_path / "ca.pem"))).connection(1)
    own = Files(str(tmp_path / "ca.pem"), str(tmp_path / "joe.pem"))
    first = Endpoint("h:1", own).connection(1)
    assert first._context is Endpoint("h:1", own).connection(1)._context
    make_client(authority, tmp_path / "joe.pem", "joe", 1)
    assert first._context is not Endpoint("h:1", own).connection(1)._context


class Knocks:
    """Time that passes only while somebody pauses, and a port that closes so often."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *failures: OSError) -> None:
        self.now = 100.0
        self.failures = [*failures]
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)
        monkeypatch.setattr(module.time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def ask(self) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return "in"


def test_who_is_closed_on_tries_again_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """A port that somebody floods takes whoever comes often enough; what is no answer ends it."""
    closed = [ConnectionResetError(104, "reset"), ssl.SSLEOFError(8, "EOF"), BrokenPipeError()]
    knocks = Knocks(monkeypatch, *closed)
    assert knocked(knocks.ask) == "in"
    assert 100 < knocks.now < 100.2
    with pytest.raises(ClosedError, match="reset"):
        knocked(Knocks(monkeypatch, *[ConnectionResetError(104, "reset")] * 100).ask)
    refused = Knocks(monkeypatch, ConnectionRefusedError(111, "refused"))
    with pytest.raises(ConnectionRefusedError):
        knocked(refused.ask)
    assert refused.now == 100
