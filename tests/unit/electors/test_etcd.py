"""Standing for election at etcd: what is asked of it, and what its answers are worth."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest

from holdfast.electors.etcd import EtcdElector
from holdfast.electors.etcd_gateway import EtcdGateway
from holdfast.electors.url import parse_elector_url
from holdfast.errors import UnreachableError

A, B = "a" * 32, "b" * 32


class ModelEtcd:
    """Leases and keys, as far as an elector asks for them."""

    def __init__(self) -> None:
        self.leases: dict[int, int] = {}
        self.keys: dict[str, int] = {}
        self.values: dict[str, str] = {}
        self.refuses: set[str] = set()
        self.asked: list[str] = []
        self.answers: dict[str, dict[str, Any]] = {}

    def call(self, method: str, request: dict[str, Any], _until: float) -> dict[str, Any]:
        self.asked.append(method)
        if method in self.refuses:
            raise UnreachableError(f"{method} is refused")
        if method in self.answers:
            return self.answers[method]
        lease = int(request.get("ID", request.get("lease", 0)))
        match method:
            case "lease/grant":
                lease = 10 + len(self.leases)
                self.leases[lease] = int(request["TTL"])
                return {"ID": str(lease), "TTL": request["TTL"]}
            case "lease/keepalive":
                return {"ID": str(lease), "TTL": str(self.leases.get(lease, 0))}
            case "lease/revoke":
                self.end(lease)
            case "kv/put":
                key = b64decode(request["key"]).decode()
                self.keys[key] = lease
                self.values[key] = b64decode(request["value"]).decode()
            case "kv/range":
                first, end = (b64decode(request[it]).decode() for it in ("key", "range_end"))
                found = [it for it in self.keys if first <= it < end]
                return {"kvs": [{"key": b64encode(it.encode()).decode()} for it in found]}
        return {}

    def end(self, lease: int) -> None:
        """Its time is over."""
        self.leases.pop(lease, None)
        self.keys = {key: it for key, it in self.keys.items() if it != lease}


@pytest.fixture
def etcd(monkeypatch: pytest.MonkeyPatch) -> ModelEtcd:
    """An empty one, behind every gateway."""
    made = ModelEtcd()
    monkeypatch.setattr(EtcdGateway, "call", lambda _self, *asked: made.call(*asked))
    return made


def elector(name: str = "left") -> EtcdElector:
    return EtcdElector(parse_elector_url("etcd://e/log"), name=name, session_seconds=2.5)


def stand(it: EtcdElector, who: str, *, is_willing: bool = True) -> Any:
    return it.stand(who, is_willing=is_willing, seconds_max=1.0)


def test_who_comes_first_is_elected_and_is_there_by_name(etcd: ModelEtcd) -> None:
    """A session of whole seconds, kept alive at each asking; the name is for people."""
    one, other = elector(), elector("right")
    stand(one, A)
    line = stand(other, B)
    again = stand(one, A)

    assert ((A, B), 3.0) == (line.holders, line.sure_seconds)
    assert line == again
    assert {f"/log/{A}-a": "left", f"/log/{B}-b": "right"} == etcd.values
    assert ["lease/keepalive", "kv/range"] == etcd.asked[-2:]


def test_who_leaves_gives_its_lease_back_and_comes_again_behind(etcd: ModelEtcd) -> None:
    """Under another lease: what is late of the old one changes nothing."""
    one, other = elector(), elector()
    stand(one, A)
    stand(other, B)
    left = stand(one, A, is_willing=False)
    assert ((B,), 0.0) == (left.holders, left.sure_seconds)
    assert (B, A) == stand(one, A).holders
    assert f"/log/{A}-a" not in etcd.keys


def test_a_lease_that_ended_is_replaced_at_once(etcd: ModelEtcd) -> None:
    """The broker was stopped, or cut off: it stands at the end of the line."""
    one, other = elector(), elector()
    stand(one, A)
    stand(other, B)
    etcd.end(10)
    line = stand(one, A)

    assert ((B, A), 3.0) == (line.holders, line.sure_seconds)


def test_a_place_that_somebody_cleared_is_taken_again(etcd: ModelEtcd) -> None:
    """The lease is ours still; the key is written once more."""
    one = elector()
    stand(one, A)
    etcd.keys.clear()

    assert (A,) == stand(one, A).holders


def test_a_key_that_cannot_be_written_makes_nothing_sure(etcd: ModelEtcd) -> None:
    """It is said that it is written, and it is not there."""
    etcd.answers["kv/put"] = {}
    line = stand(elector(), A)

    assert ((), 0.0) == (line.holders, line.sure_seconds)


@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("lease/grant", {"ID": "0", "TTL": "3"}),
        ("lease/grant", {"ID": "x", "TTL": "3"}),
        ("lease/grant", {"ID": "7"}),
        ("kv/range", {"kvs": [{}]}),
        ("kv/range", {"kvs": ["x"]}),
        ("kv/range", {"kvs": 7}),
        ("kv/range", {"kvs": [{"key": "?"}]}),
    ],
)
def test_an_answer_that_makes_no_sense_is_trouble(
    etcd: ModelEtcd, method: str, answer: dict[str, Any]
) -> None:
    """Nothing is made of it."""
    etcd.answers[method] = answer
    with pytest.raises(UnreachableError):
        stand(elector(), A)


def test_what_others_keep_there_is_counted(etcd: ModelEtcd) -> None:
    """It stands in no line; what is beside the place is not even read."""
    etcd.keys = {"/log/lock": 1, "/log/\ufffd": 1, "/logs": 1, "/log": 1}
    line = stand(elector(), A)

    assert ((A,), 2) == (line.holders, line.strangers)


def test_closing_leaves_the_line_if_it_can(etcd: ModelEtcd) -> None:
    """What cannot be told ends with the lease."""
    one, other = elector(), elector()
    stand(one, A)
    stand(other, B)
    one.close(1.0)
    assert [f"/log/{B}-b"] == list(etcd.keys)
    etcd.refuses.add("lease/revoke")
    other.close(1.0)
    assert ("etcd", "etcd://e:2379/log") == (one.facts().kind, one.facts().place)
