"""
Values that do not fit together.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from holdfast.environment import bounded_disk
from holdfast.errors import ConfigError

THREE = ["a=127.0.0.1:7001", "b=127.0.0.1:7002", "c=127.0.0.1:7003,witness"]


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ({"peers": "127.0.0.1:7001"}, "members: missing; with --peers give every member"),
        ({"name": "x", "members": THREE}, r"name: x is not among the members \(a, b, c\)"),
        ({"name": "a", "members": [*THREE, "a=127.0.0.1:9"]}, "the name a is given twice"),
        ({"name": "a", "members": [*THREE, "d=127.0.0.1:7001"]}, "address 127.0.0.1:7001 is given"),
        ({"name": "a", "members": ["a=h:1,witness"]}, "none of them is a voter"),
        ({"name": "a", "members": THREE, "copies": 4}, "copies: 4 is more .* allowed: 1 to 2"),
        ({"copies": 2}, "copies: 2 is more .* allowed: 1 to 1"),
        ({"name": "a", "members": THREE, "sites": 2}, "sites: 2 is more .* allowed: 1 to 1"),
        ({"name": "a", "members": THREE, "sites": 2, "site": "x"}, "no site is given for: b, c"),
        ({"name": "a", "members": ["a=127.0.0.1:1,site=x"], "site": "y"}, "site: y here, but x in"),
        ({"heartbeat_seconds": 0.5}, "election_seconds_min: 1 is less than 5 heartbeats"),
        ({"election_seconds_max": 1.0}, "allowed: 1.2 or more"),
        ({"stomp": "127.0.0.1:5", "admin": "127.0.0.1:5"}, "two of them are bound to 127.0.0.1:5"),
        ({"stomp": "127.0.0.1:5", "listen": ["127.0.0.1:5"]}, "two of them are bound to 127.0.0.1"),
        ({"listen": ["h:5,tls=x"]}, r"listen: h:5 is to go by \[tls.x\], and the file has no such"),
        ({"members": ["a", "b=h:1,boss"], "name": "a"}, "'a' is not NAME=.*'boss' in 'b=h:1,boss'"),
        ({"data": __file__}, "is not a directory"),
        ({"elector": "etcd://h/x"}, "elector: it elects among brokers over one log, which needs"),
        ({"elector": "etcd://h", "shared": "/x"}, "elector: the path is missing, which names the"),
        ({"store_confirm": "majority", "store": "sqlite:////x"}, "majority needs --store 3 times"),
        ({"store_confirm": "majority"}, "store_confirm: majority needs --store 3 times or more"),
        ({"store_confirm": "most"}, "store_confirm: 'most': input should be 'all' or 'majority'"),
        ({"sql_messages": "full"}, "sql_messages: full shows .* needs a --store"),
        ({"sql_messages": "full", "shared": "/x"}, "sql_messages: full shows .* a --store"),
        ({"sql_messages": "yes", "store": "sqlite:////x/a"}, "sql_messages.*off.*headers.*full"),
        ({"secret_file": "/no/such/file"}, "secret_file: /no/such/file cannot be read"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(
    flags: dict[str, Any], sentence: str, load: Any
) -> None:
    """
    Each relation between settings has its own sentence.
    """
    with pytest.raises(ConfigError, match=sentence):
        load(**flags)


def test_copies_on_more_sites_than_copies_are_refused(load: Any) -> None:
    """
    One copy cannot stand on two sites.
    """
    members = ["a=127.0.0.1:1,site=x", "b=127.0.0.1:2,site=y"]
    with pytest.raises(ConfigError, match="copies: 1 copies cannot stand on 2 sites"):
        load(name="a", members=members, copies=1, sites=2)


def test_peers_open_to_other_machines_need_a_secret(
    tmp_path: Path, load: Any, problems_of: Any
) -> None:
    """
    A peer link can overwrite a log, so a port that strangers reach is refused without a secret.
    """
    flags = {"name": "a", "members": THREE, "peers": "0.0.0.0:7001"}
    assert problems_of(**flags)[0].startswith("secret_file: missing; peers bound to 0.0")
    secret = tmp_path / "secret"
    secret.write_bytes(b"0123456789abcdef0123\n")
    assert load(**flags, secret_file=secret).secret == b"0123456789abcdef0123"


def test_more_members_than_supported_are_refused(problems_of: Any) -> None:
    """
    A cluster has a largest size, as everything has.
    """
    members = [f"m{i}=127.0.0.1:{7000 + i}" for i in range(16)]
    assert problems_of(name="m0", members=members) == ["members: 16 members; allowed: at most 15"]


def test_a_directory_that_cannot_be_looked_at_is_one_of_the_mistakes(problems_of: Any) -> None:
    """
    Beside the others, and with the name of the setting.
    """
    first, second = problems_of(data="x" * 5_000, copies=3)
    assert first.startswith("copies: 3 is more than")
    assert second.startswith("data: xxx")
    assert second.endswith("… cannot be looked at: file name too long") or "too long" in second
    assert len(second) < 1_200


def test_a_directory_that_does_not_answer_is_no_mistake(
    problems_of: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """
    A start that hangs before it can write a line tells nobody why; it looks again once it can.
    """
    gate = threading.Event()
    exists = Path.exists

    def wait(path: Path) -> bool:
        if path == tmp_path / "away":
            gate.wait(30)
        return exists(path)

    monkeypatch.setattr(bounded_disk, "GLANCE_SECONDS", 0.05)
    monkeypatch.setattr(Path, "exists", wait)
    try:
        (problem,) = problems_of(data=tmp_path / "away", copies=3)
        assert problem.startswith("copies: 3")
    finally:
        gate.set()
