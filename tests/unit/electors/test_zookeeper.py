"""Standing for election at ZooKeeper: which nodes are made, kept and removed, and what is sure."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from holdfast.electors import zookeeper
from holdfast.electors.url import parse_elector_url
from holdfast.electors.zookeeper import ZookeeperElector
from holdfast.errors import UnreachableError

A, B = "a" * 32, "b" * 32


class Ensemble:
    """Nodes with a number, each of a session."""

    def __init__(self) -> None:
        self.nodes: dict[str, int] = {}
        self.count = 0
        self.raises: dict[str, Exception] = {}
        self.is_up = True
        self.clients: list[Client] = []

    def end(self, session: int) -> None:
        """It was silent for too long."""
        self.nodes = {name: it for name, it in self.nodes.items() if it != session}


class Asked:
    """What was asked for, done at once."""

    def __init__(self, done: Callable[[], Any], ready: Callable[[], bool] = lambda: True) -> None:
        self._done = done
        self.ready = ready

    def get(self, timeout: float) -> Any:
        assert timeout > 0
        return self._done()


class Client:
    """As much of kazoo's client as is used."""

    ensemble: Ensemble

    def __init__(self, **options: Any) -> None:
        self.options = options
        self.session = 100 + len(self.ensemble.clients)
        self.is_stopped = False
        self.live = threading.Event()
        self._connection = self
        self.ensemble.clients.append(self)

    def _connect(self, *_: Any) -> tuple[float, float]:
        return 4_000.0 * 2 / 3, 1.0

    def start_async(self) -> threading.Event:
        if self.ensemble.is_up:
            self._connection._connect("host", "ip", 1)
            self.live.set()
        return self.live

    @property
    def connected(self) -> bool:
        return self.live.is_set()

    @property
    def client_id(self) -> tuple[int, bytes]:
        return self.session, b"password"

    def _ask(self, what: str, do: Callable[[], Any]) -> Asked:
        def done() -> Any:
            if what in self.ensemble.raises:
                raise self.ensemble.raises[what]
            return do()

        return Asked(done)

    def sync_async(self, _path: str) -> Asked:
        return self._ask("sync", lambda: None)

    def get_children_async(self, _path: str) -> Asked:
        return self._ask("children", lambda: list(self.ensemble.nodes))

    def create_async(self, path: str, value: bytes, **options: bool) -> Asked:
        assert {"ephemeral": True, "sequence": True, "makepath": True} == options
        assert b"left" == value

        def create() -> str:
            self.ensemble.count += 1
            made = f"{path}{self.ensemble.count:010d}"
            self.ensemble.nodes[made.rpartition("/")[2]] = self.session
            return made

        return self._ask("create", create)

    def exists_async(self, path: str) -> Asked:
        def stat() -> Any:
            owner = self.ensemble.nodes.get(path.rpartition("/")[2])
            return None if owner is None else SimpleNamespace(ephemeralOwner=owner)

        return self._ask("exists", stat)

    def delete_async(self, path: str) -> Asked:
        def delete() -> None:
            if self.ensemble.nodes.pop(path.rpartition("/")[2], None) is None:
                raise NoNodeError

        return self._ask("delete", delete)

    def stop(self) -> None:
        self.is_stopped = True
        if "stop" in self.ensemble.raises:
            raise self.ensemble.raises["stop"]
        self.ensemble.end(self.session)

    def close(self) -> None:
        assert self.is_stopped


@pytest.fixture
def ensemble(monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    """An empty one, behind every client."""
    made = Ensemble()
    monkeypatch.setattr(zookeeper, "KazooClient", type("One", (Client,), {"ensemble": made}))
    return made


def elector(address: str = "zookeeper://z1,z2:9/log", password: str = "") -> ZookeeperElector:
    url = parse_elector_url(address)
    return ZookeeperElector(url, password=password, name="left", session_seconds=3.0)


def stand(it: ZookeeperElector, who: str, *, is_willing: bool = True) -> Any:
    return it.stand(who, is_willing=is_willing, seconds_max=0.5)


def test_who_comes_first_is_elected_for_a_part_of_its_session(ensemble: Ensemble) -> None:
    """Of the four seconds that the server grants, not of the three that were asked for."""
    one, other = elector(), elector()
    stand(one, A)
    line = stand(other, B)

    assert ((A, B), 3.0) == (line.holders, line.sure_seconds)
    assert line == stand(one, A)
    assert [f"{A}-0000000001", f"{B}-0000000002"] == list(ensemble.nodes)
    assert "z1:2181,z2:9" == ensemble.clients[0].options["hosts"]


def test_who_leaves_removes_its_node_and_comes_again_behind(ensemble: Ensemble) -> None:
    """The session stays, and makes nothing sure meanwhile."""
    one, other = elector(), elector()
    stand(one, A)
    stand(other, B)
    left = stand(one, A, is_willing=False)

    assert ((B,), 0.0) == (left.holders, left.sure_seconds)
    assert (B, A) == stand(one, A).holders


def test_a_session_that_ended_is_another_one_afterwards(ensemble: Ensemble) -> None:
    """What is left of the old one counts for nothing, and goes."""
    one = elector()
    stand(one, A)
    ensemble.clients[0].session = 777
    line = stand(one, A)
    assert ((A,), 3.0) == (line.holders, line.sure_seconds)
    assert 777 == ensemble.nodes[f"{A}-0000000002"]
    stand(one, A)
    assert [f"{A}-0000000002"] == list(ensemble.nodes)


def test_a_node_whose_making_was_not_heard_of_is_removed(ensemble: Ensemble) -> None:
    """It would keep a place of which nobody knows."""
    one = elector()
    stand(one, A)
    ensemble.nodes[f"{A}-0000000009"] = 100
    line = stand(one, A)

    assert ((A,), 3.0) == (line.holders, line.sure_seconds)
    assert [f"{A}-0000000001"] == list(ensemble.nodes)


def made_unheard(ensemble: Ensemble, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each node be made, and the first two answers not come."""
    create = Client.create_async
    failures = [error, error]

    def create_async(self: Client, *arguments: Any, **options: Any) -> Asked:
        made = create(self, *arguments, **options).get(1.0)

        def answer() -> Any:
            if failures:
                raise failures.pop()
            return made

        return Asked(answer, lambda: not failures)

    monkeypatch.setattr(Client, "create_async", create_async)


@pytest.mark.parametrize("error", [KazooTimeoutError(), ConnectionLoss()])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_node_that_is_made_and_not_heard_of_is_the_only_one(
    ensemble: Ensemble, error: Exception, monkeypatch: pytest.MonkeyPatch, *, is_slow: bool
) -> None:
    """
    The next step finds it, by its session, where it can be read; else its answer is waited for.
    """
    made_unheard(ensemble, error, monkeypatch)
    one = elector()
    with pytest.raises(UnreachableError):
        stand(one, A)
    hidden = dict(ensemble.nodes) if is_slow and isinstance(error, KazooTimeoutError) else {}
    if hidden:
        ensemble.nodes.clear()  # The server comes to it later.
        with pytest.raises(UnreachableError):
            stand(one, A)
        ensemble.nodes.update(hidden)
    line = stand(one, A)

    assert ((A,), 3.0) == (line.holders, line.sure_seconds)
    assert [f"{A}-0000000001"] == list(ensemble.nodes)


def test_a_hundred_nodes_that_were_made_unheard_go_in_a_few_steps(ensemble: Ensemble) -> None:
    """The oldest stays: its place is ours."""
    one = elector()
    stand(one, A)
    ensemble.nodes |= {f"{A}-{number:010d}": 100 for number in range(2, 100)}
    for _ in range(4):
        stand(one, A)

    assert [f"{A}-0000000001"] == list(ensemble.nodes)


def test_a_session_that_changes_meanwhile_makes_nothing_sure(
    ensemble: Ensemble, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The node that was made may be of the one that has ended."""
    one = elector()
    create = Client.create_async

    def change(self: Client, *arguments: Any, **options: Any) -> Asked:
        asked = create(self, *arguments, **options)
        self.session += 1_000
        return asked

    monkeypatch.setattr(Client, "create_async", change)
    assert 0.0 == stand(one, A).sure_seconds


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (KazooTimeoutError(), "did not answer in time"),
        (ConnectionLoss(), "refuses: ConnectionLoss"),
        (NoAuthError(), "refuses: NoAuthError"),
    ],
)
def test_whatever_kazoo_raises_is_trouble(ensemble: Ensemble, raised: Exception, said: str) -> None:
    """In one sentence that names the place."""
    ensemble.raises["children"] = raised
    with pytest.raises(UnreachableError) as caught:
        stand(elector(), A)

    assert said in str(caught.value)
    assert "zookeeper://z1:2181,z2:9/log" in str(caught.value)


def test_a_place_that_is_not_there_is_an_empty_line(ensemble: Ensemble) -> None:
    """The first broker of all makes it, with its node."""
    ensemble.raises["children"] = NoNodeError()
    assert () == stand(elector(), A, is_willing=False).holders


def test_who_is_not_reached_is_waited_for_within_the_bound(ensemble: Ensemble) -> None:
    """And asked for again the next time, by the same client."""
    ensemble.is_up = False
    one = elector()
    for _ in range(2):
        with pytest.raises(UnreachableError, match="is not reached"):
            one.stand(A, is_willing=True, seconds_max=0.01)
    assert 1 == len(ensemble.clients)


def test_what_others_keep_there_is_counted_and_comes_last(ensemble: Ensemble) -> None:
    """Whatever its name; numbers go on below zero once they have overflowed."""
    ensemble.nodes = {"lock-0000000000": 1, f"{B}--000000005": 1}
    line = stand(elector(), A)

    assert ((B, A), 1) == (line.holders, line.strangers)


def test_a_user_is_proved_and_owns_its_nodes(ensemble: Ensemble) -> None:
    """Nobody else removes them; without one they are anybody's."""
    stand(elector("zookeeper://hf@z/log", password="secret"), A)
    stand(elector(), B)
    mine, open_to_all = (it.options for it in ensemble.clients)

    assert [("digest", "hf:secret")] == mine["auth_data"]
    assert "secret" not in str(mine["default_acl"])
    assert (None, None) == (open_to_all["auth_data"], open_to_all["default_acl"])


def test_closing_ends_the_session(ensemble: Ensemble) -> None:
    """And with it the node; what cannot be told ends by itself."""
    elector().close(1.0)
    one, other = elector(), elector()
    stand(one, A)
    stand(other, B)
    one.close(1.0)
    assert [f"{B}-0000000002"] == list(ensemble.nodes)
    ensemble.raises["stop"] = ConnectionLoss()
    with pytest.raises(UnreachableError):
        other.close(1.0)
