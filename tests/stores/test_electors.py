"""A line at a real server of ZooKeeper or etcd: who stands in it, for how long, and by right."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import pytest
from kazoo.client import KazooClient

from holdfast.electors.etcd_gateway import EtcdGateway
from holdfast.electors.opening import open_elector
from holdfast.electors.url import ETCD, ElectorUrl, parse_elector_url
from holdfast.errors import UnreachableError
from holdfast.leases.elector import Elector, Line
from trials.databases.server import DatabaseServer

A, B = "a" * 32, "b" * 32
SESSION_SECONDS = 2.0
SECRET = "s3cr3t"
Make = Callable[..., Elector]
pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def make(
    elector_server: DatabaseServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Make]:
    """Electors at one place of this test's own; all of them leave at its end."""
    place = tmp_path_factory.mktemp("place").name
    made: list[Elector] = []

    def one(user: str = "") -> Elector:
        address = elector_server.url(place)
        if user:  # What it makes is its own, and nobody else's afterwards.
            address = address.replace("://", f"://{user}@").replace("/holdfast/", "/owned/")
        url = parse_elector_url(address)
        made.append(open_elector(url, name="left", session_seconds=SESSION_SECONDS))
        return made[-1]

    yield one
    for each in made:
        each.close(1.0)


def stand(elector: Elector, who: str, *, is_willing: bool = True) -> Line:
    """Ask until it answers: a server that is busy may take longer than a step."""
    for left in range(10, -1, -1):
        try:
            return elector.stand(who, is_willing=is_willing, seconds_max=3.0)
        except UnreachableError:
            if not left:
                raise
            time.sleep(0.1)
    raise AssertionError("not reached")


def test_a_line_is_in_the_order_of_coming_and_who_leaves_comes_last(make: Make) -> None:
    """All of them read the same one."""
    one, other = make(), make()
    stand(one, A)
    assert (A, B) == stand(other, B).holders == stand(one, A).holders
    assert stand(one, A).sure_seconds >= 0.7 * SESSION_SECONDS
    left = stand(one, A, is_willing=False)
    assert ((B,), 0.0) == (left.holders, left.sure_seconds)
    assert (B, A) == stand(one, A).holders
    other.close(1.0)
    assert (A,) == stand(one, A).holders


def test_a_server_that_is_killed_and_comes_back_knows_its_sessions(
    make: Make, elector_server: DatabaseServer
) -> None:
    """While it is away that is said within the bound of the call."""
    one = make()
    stand(one, A)
    elector_server.kill()
    began = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        one.stand(A, is_willing=True, seconds_max=0.5)
    assert time.monotonic() - began < 5.0
    assert "127.0.0.1" in str(caught.value)
    elector_server.start()
    assert (A,) == stand(one, A).holders


def test_a_server_that_hangs_costs_the_bound_of_a_call(
    make: Make, elector_server: DatabaseServer
) -> None:
    """And no more: the connection is there, and nothing comes."""
    one = make()
    stand(one, A)
    elector_server.pause()
    try:
        began = time.monotonic()
        with pytest.raises(UnreachableError):
            one.stand(A, is_willing=True, seconds_max=0.5)
        assert time.monotonic() - began < 5.0
    finally:
        elector_server.resume()
    assert (A,) == stand(one, A).holders


def test_only_who_has_the_password_stands_in_a_line(
    make: Make, elector_server: DatabaseServer
) -> None:
    """Others are refused, by a sentence without any password."""
    url = parse_elector_url(elector_server.url("x"))
    if url.kind == ETCD:
        _let_users_in(url)
    try:
        one, stranger = make(f"hf:{SECRET}"), make("hf:wr0ng")
        assert (A,) == stand(one, A).holders
        with pytest.raises(UnreachableError) as caught:
            stand(stranger, B)
        assert "wr0ng" not in str(caught.value)
        assert (A,) == stand(one, A).holders
    finally:
        if url.kind == ETCD:
            root = parse_elector_url(elector_server.url("x").replace("://", "://root@"))
            _tell(root, SECRET, "auth/disable", {})


def _let_users_in(url: ElectorUrl) -> None:
    """Let etcd ask who one is: `hf` may do everything below /owned/."""
    below = {"permType": "READWRITE", "key": _key("/owned/"), "range_end": _key("/owned0")}
    for method, request in (
        ("auth/user/add", {"name": "root", "password": SECRET}),
        ("auth/user/grant", {"user": "root", "role": "root"}),
        ("auth/user/add", {"name": "hf", "password": SECRET}),
        ("auth/role/add", {"name": "brokers"}),
        ("auth/role/grant", {"name": "brokers", "perm": below}),
        ("auth/user/grant", {"user": "hf", "role": "brokers"}),
        ("auth/enable", {}),
    ):
        _tell(url, "", method, request)


def _tell(url: ElectorUrl, password: str, method: str, request: dict[str, Any]) -> None:
    """
    Have something done at etcd.

    Where it lets users go it may not know the token any more by which it was told to: then it is
    asked again, and says that there are none.
    """
    with closing(EtcdGateway(url, password)) as gateway:
        for left in range(10, -1, -1):
            try:
                gateway.call(method, request, time.monotonic() + 10.0)
            except UnreachableError as error:
                if "authentication is not enabled" in str(error):
                    return
                if not left or "token" not in str(error):
                    raise
            else:
                return


def _key(text: str) -> str:
    return b64encode(text.encode()).decode()


def test_what_somebody_else_keeps_there_is_counted(
    make: Make, elector_server: DatabaseServer
) -> None:
    """It is no broker, whatever is in it, and nobody waits for it."""
    one = make()
    stand(one, A)
    place = one.facts().place
    url = parse_elector_url(place)
    if url.kind == ETCD:
        entry = {"key": _key(f"{url.path}/lock"), "value": _key("mine")}
        _tell(url, "", "kv/put", entry)
    else:
        client = KazooClient(f"127.0.0.1:{url.hosts[0].port}")
        client.start()
        client.create(f"{url.path}/lock", b"\xff\x00")
        client.stop()
        client.close()
    line = stand(one, A)

    assert ((A,), 1) == (line.holders, line.strangers)
