"""The exchanges with etcd's gateway: bounded, over several hosts, and never believed blindly."""

from __future__ import annotations

import http.client
import json
from base64 import b64decode
from typing import Any

import pytest

from holdfast.electors import etcd_gateway
from holdfast.electors.etcd_gateway import REPLY_BYTES_MAX, EtcdGateway, as_key
from holdfast.electors.url import parse_elector_url
from holdfast.errors import UnreachableError

SECRET = "s3cr3t"


class Response:
    """An answer, in pieces."""

    def __init__(self, status: int, content: bytes, network: Network) -> None:
        self.status = status
        self._content = content
        self._network = network

    def close(self) -> None:
        self._network.open_answers -= 1

    def read1(self, count: int) -> bytes:
        self._network.now += self._network.seconds_of_a_piece
        piece, self._content = self._content[:count], self._content[count:]
        return piece


class Network:
    """What the hosts answer, and what they were asked."""

    def __init__(self) -> None:
        self.now = 100.0
        self.seconds_of_a_piece = 0.0
        self.answers: dict[str, list[Any]] = {}
        self.asked: list[tuple[str, str, dict[str, Any], str | None]] = []
        self.timeouts: list[float] = []
        self.connection_count = 0
        self.open_answers = 0

    def connection(self, host: str, _port: int, timeout: float) -> Connection:
        self.timeouts.append(timeout)
        self.connection_count += 1
        return Connection(self, host)


class Connection:
    """One connection; its socket is nobody's."""

    def __init__(self, network: Network, host: str) -> None:
        self._network = network
        self._host = host
        self.sock = self

    def connect(self) -> None:
        if not self._network.answers.get(self._host):
            self._network.now += 0.1
            raise ConnectionRefusedError(111, "Connection refused")

    def settimeout(self, seconds: float) -> None:
        self._network.timeouts.append(seconds)

    def request(self, _method: str, path: str, body: bytes, headers: dict[str, str]) -> None:
        if self._network.open_answers:
            # As http.client does, of which some versions close no answer that was read in pieces.
            raise http.client.ResponseNotReady("Request-sent")
        token = headers.get("Authorization")
        self._network.asked.append((self._host, path, json.loads(body), token))

    def getresponse(self) -> Response:
        answer = self._network.answers[self._host].pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, content = answer
        content = content if isinstance(content, bytes) else json.dumps(content).encode()
        self._network.open_answers += 1
        return Response(status, content, self._network)

    def close(self) -> None:
        self.sock = None
        self._network.open_answers = 0


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    """Nobody answers until the test says what."""
    made = Network()
    monkeypatch.setattr(etcd_gateway.http.client, "HTTPConnection", made.connection)
    return made


def gateway(network: Network, address: str = "etcd://e1,e2/x") -> EtcdGateway:
    return EtcdGateway(parse_elector_url(address), SECRET, lambda: network.now)


def test_a_call_is_one_post_to_the_first_host(network: Network) -> None:
    """Of a stream the first answer counts."""
    network.answers["e1"] = [(200, {"kvs": []}), (200, {"result": {"TTL": "3"}})]
    asking = gateway(network)

    assert {"kvs": []} == asking.call("kv/range", {"key": "eA=="}, 101.0)
    assert {"TTL": "3"} == asking.call("lease/keepalive", {"ID": "7"}, 101.0)
    assert ("e1", "/v3/kv/range", {"key": "eA=="}, None) == network.asked[0]
    assert 1 == network.connection_count


def test_the_next_host_is_asked_and_stays_the_one(network: Network) -> None:
    """Within the bound of the call: no host takes all of its time."""
    network.answers["e2"] = [(200, {"header": {}})] * 2
    asking = gateway(network)
    asking.call("kv/range", {}, 103.0)
    asking.call("kv/range", {}, 103.0)

    assert ["e2", "e2"] == [host for host, *_ in network.asked]
    assert max(network.timeouts) <= 1.5
    assert "e2:2379" == str(asking.host)


def test_a_host_that_drips_its_answer_is_left_in_time(network: Network) -> None:
    """Each piece comes in time, and all of them do not."""
    network.answers["e1"] = [(200, b"{" + b" " * REPLY_BYTES_MAX)]
    network.seconds_of_a_piece = 0.4
    with pytest.raises(UnreachableError):
        gateway(network).call("kv/range", {}, 101.0)
    assert network.now < 103.0


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (TimeoutError("timed out"), "does not answer: timed out"),
        (http.client.BadStatusLine("x"), "does not answer: x"),
        ((200, b"<html>"), "what no etcd does"),
        ((200, b"[]"), "what no etcd does"),
        ((200, b"[" * 100_000), "what no etcd does"),
        ((200, b"x" * (REPLY_BYTES_MAX + 1)), "more than 1,048,576 bytes"),
        ((404, {"error": "lease not found"}), "refuses kv/range: lease not found (404)"),
        ((200, {"error": {"message": "it is full"}}), "refuses kv/range: it is full (200)"),
        ((503, {}), "refuses kv/range: nothing (503)"),
    ],
)
def test_whatever_is_no_answer_is_trouble(network: Network, answer: Any, said: str) -> None:
    """In one sentence that names the host."""
    network.answers["e1"] = [answer] * 3
    with pytest.raises(UnreachableError) as caught:
        gateway(network, "etcd://e1/x").call("kv/range", {}, 101.0)

    assert said in str(caught.value)
    assert "e1:2379" in str(caught.value)


def test_a_call_without_time_asks_nobody(network: Network) -> None:
    """What was before took all of it."""
    with pytest.raises(UnreachableError, match="no time"):
        gateway(network).call("kv/range", {}, 100.0)
    assert [] == network.asked


@pytest.mark.parametrize(
    "said", ["invalid auth token", "revision of auth store is old", "user name is empty"]
)
def test_a_user_is_proved_once_and_again_when_the_token_is_stale(
    network: Network, said: str
) -> None:
    """The password is told to etcd and to nobody else."""
    stale = (401, {"error": f"etcdserver: {said}"})
    network.answers["e1"] = [
        (200, {"token": "t1"}),
        (200, {}),
        stale,
        (200, {"token": "t2"}),
        (200, {"kvs": []}),
    ]
    asking = gateway(network, "etcd://hf@e1/x")
    asking.call("kv/range", {}, 101.0)
    asking.call("kv/range", {}, 101.0)

    paths = [path for _, path, *_ in network.asked]
    assert ["/v3/auth/authenticate", "/v3/kv/range"] * 2 == [*paths[:2], *paths[3:]]
    assert {"name": "hf", "password": SECRET} == network.asked[0][2]
    assert [None, "t1", "t1"] == [token for *_, token in network.asked[:3]]
    assert "t2" == network.asked[-1][3]


def test_a_password_that_is_wrong_is_not_repeated(network: Network) -> None:
    """Nor is it in the sentence."""
    network.answers["e1"] = [(400, {"error": "authentication failed"})] * 3
    with pytest.raises(UnreachableError) as caught:
        gateway(network, "etcd://hf@e1/x").call("kv/range", {}, 101.0)
    assert "authentication failed" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_a_password_that_is_wrong_is_shown_ever_less_often(network: Network) -> None:
    """To look at it costs a server that others use; once it is right it is shown as before."""
    network.answers["e1"] = [(400, {"error": "authentication failed"})] * 9
    asking = gateway(network, "etcd://hf@e1/x")
    asked_at: list[float] = []
    while network.now < 340.0:
        before = len(network.asked)
        with pytest.raises(UnreachableError, match="authentication failed"):
            asking.call("kv/range", {}, network.now + 1.0)
        asked_at += [network.now] * (len(network.asked) - before)
        network.now += 0.5
    assert [0, 1, 3, 7, 15, 31, 63, 123, 183] == [it - 100.0 for it in asked_at]
    network.answers["e1"] = [
        (200, {"token": "t1"}),
        (200, {}),
        (401, {"error": "invalid auth token"}),
        (200, {"token": "t2"}),
        (200, {}),
    ]
    network.now += 60.0
    for _ in range(2):
        asking.call("kv/range", {}, network.now + 1.0)


def test_a_server_that_cannot_look_at_a_password_has_not_refused_it(network: Network) -> None:
    """It has no leader, or is busy: it is asked again at once, and so are the others."""
    network.answers["e1"] = [
        (503, {"error": "etcdserver: no leader"}),
        (429, {"error": "etcdserver: too many requests"}),
    ]
    asking = gateway(network, "etcd://hf@e1/x")
    with pytest.raises(UnreachableError, match="too many requests"):
        asking.call("kv/range", {}, 101.0)
    network.answers["e1"] = [(200, {"token": "t1"}), (200, {"kvs": []})]
    assert asking.call("kv/range", {}, 101.0) == {"kvs": []}


def test_keys_are_written_as_the_gateway_wants_them() -> None:
    """It takes bytes."""
    assert b"/holdfast/\xc3\xa4" == b64decode(as_key("/holdfast/ä"))
