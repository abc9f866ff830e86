"""
Reading from a cluster that answers as the test says: which node is asked, and what is done when one
fails.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from holdfast.errors import (
    AuthenticationError,
    BusyError,
    ConfigError,
    CorruptEntryError,
    ForbiddenError,
    HoldfastError,
    LinkLostError,
    RecordNotFoundError,
)
from holdfast.spark.log import client as log_client
from holdfast.spark.log.admin_link import TIMEOUT_SECONDS
from holdfast.spark.log.client import (
    BUSY_SECONDS,
    POSITION_SECONDS,
    RANK_SECONDS,
    RemoteLog,
)
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.holds import Hold
from holdfast.spark.log.source import DamagedRange
from holdfast.spark.pipelines.replica_audit import remote_digests
from holdfast.spark.pipelines.served_depths import _applied
from holdfast.spark.source.writer import write_options
from trials.pipeline.written_log import message, sealed

ENTRIES = sealed(*([message(1, n, bytes(100))] for n in range(1, 11)))
NODES = ("a", "b", "c")
BODY = StructType([StructField("body", BinaryType())])
TOKEN = "44" * 32


class PaperCluster:
    """Three nodes that have the entries 1 to 10; `faults` says what a node raises instead."""

    def __init__(self) -> None:
        self.roles = {"a": "leader", "b": "follower", "c": "learner"}
        self.last = dict.fromkeys(NODES, 10)
        self.generations = dict.fromkeys(NODES, 0)
        self.clusters = dict.fromkeys(NODES, "c1")
        self.faults: dict[str, HoldfastError] = {}
        self.busy: set[str] = set()
        self.cut: set[str] = set()
        self.damaged: dict[str, int] = {}
        self.gone: set[str] = set()
        self.strangers: dict[str, dict[str, Any]] = {}
        """What is answered where no node is."""
        self.nodes_status: dict[str, dict[str, Any]] = {}
        self.answer_entries = 3
        self.asked: list[tuple[str, int]] = []
        self.slept = 0
        self.sleeps_as_told = False
        self.questions: list[str] = []
        self.patience: list[float] = []

    def link(self, address: str, token: str, seconds: float = 20.0) -> PaperLink:
        self.patience.append(seconds)
        return PaperLink(self, address)

    def data(self, node: str, index: int, through: int) -> bytes:
        self.asked.append((node, index))
        if node in self.faults:
            raise self.faults[node]
        if node in self.cut:
            raise LinkLostError("reset")
        if node in self.busy:
            raise BusyError(f"{node} has 16")
        last = min(through, self.last[node], index + self.answer_entries - 1)
        raws = [bytearray(entry.raw) for entry in ENTRIES[index - 1 : last]]
        if self.damaged.get(node, 0) in range(index, last + 1):
            raws[self.damaged[node] - index][-20] ^= 1
        return b"".join(raws)


class PaperLink:
    def __init__(self, cluster: PaperCluster, address: str) -> None:
        self.cluster = cluster
        self.address = address

    def __enter__(self) -> PaperLink:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def close(self) -> None:
        pass

    def ask(self, method: str, path: str, data: bytes | None) -> dict[str, Any]:
        self.cluster.questions.append(path)
        if self.address in self.cluster.faults:
            raise self.cluster.faults[self.address]
        if self.address in self.cluster.gone and "from=" in path:
            raise RecordNotFoundError(f"gone at {self.address}")
        if path.startswith("/log/position"):
            if self.address in self.cluster.strangers:
                return self.cluster.strangers[self.address]
            first = int(path.partition("from=")[2].partition("&")[0] or 0)
            return {
                "name": self.address,
                "role": self.cluster.roles[self.address],
                "first_index": 1,
                "commit_index": self.cluster.last[self.address],
                "cluster_id": self.cluster.clusters[self.address],
                "generation": self.cluster.generations[self.address],
                "last_timestamp": 9,
                "through_index": min(first + 2, self.cluster.last[self.address]),
                **({} if "bases=false" in path else {"bases": [1, 6]}),
            }
        if path.startswith("/subscriptions"):
            return {"subscriptions": [{"number": 9}], "path": path}
        if path.startswith("/queues"):
            asked_after = path.partition("&after=")[2]
            number, following = {"": (1, "q 1"), "q%201": (2, None)}[asked_after]
            page = {"queues": [{"number": number, "name": f"q {number}"}], "path": path}
            return page | {"by": self.address} | ({"next": following} if following else {})
        told = self.cluster.nodes_status.get(self.address, {}) if path == "/status" else {}
        return {"path": path, "by": self.address} | told

    def read_log(self, index: int, bytes_max: int, through: int) -> bytes:
        return self.cluster.data(self.address, index, through)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> PaperCluster:
    paper = PaperCluster()
    monkeypatch.setattr(log_client, "AdminLink", paper.link)
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds if paper.sleeps_as_told else 10.0
        paper.slept += 1

    monkeypatch.setattr(log_client.time, "sleep", sleep)
    monkeypatch.setattr(log_client.time, "monotonic", lambda: now[0])
    return paper


LOG = RemoteLog(NODES)


def indexes(first: int = 1, last: int = 10) -> list[int]:
    found: list[int] = []
    for block in LOG.blocks(first, last):
        assert isinstance(block, EntryBlock)
        found += block.indexes.tolist()
    return found


def test_the_position_is_the_furthest_of_all_nodes(cluster: PaperCluster) -> None:
    """A follower that is behind must not hide what is committed."""
    cluster.last["b"] = 7
    position = LOG.position()
    assert (1, 10, "c1", (1, 6)) == (
        position.first_index,
        position.last_index,
        position.cluster_id,
        position.bases,
    )
    assert {1: "q 1", 2: "q 2"} == LOG.queue_names()
    assert 4 == LOG.reach(2, 100)


def test_who_answers_otherwise_is_no_node(cluster: PaperCluster) -> None:
    """Another server at a mistyped port is left for the others; alone it is told."""
    log = RemoteLog(NODES)
    cluster.strangers = {"a": {}, "b": {"cluster_id": "c1", "commit_index": "far"}}
    assert 10 == log.position().last_index
    cluster.strangers["c"] = {"status": "ok"}
    with pytest.raises(LinkLostError, match="not as an admin port"):
        log.position()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: write_options({"url": "a:1,b:1", "destination": "q"}, BODY),
        lambda: Hold(RemoteLog(("a:1", "b:1")), "x").move(1),
        lambda: remote_digests(RemoteLog(("a:1", "b:1")), lambda _: None),
        lambda: _applied(RemoteLog(("a:1", "b:1"))),
    ],
    ids=["write", "hold", "digests of segments", "depths"],
)
def test_whatever_is_asked_who_answers_otherwise_is_no_node(
    ask: Callable[[], object], cluster: PaperCluster
) -> None:
    """One sentence names the server, not a key that its answer lacks."""
    with pytest.raises(LinkLostError, match="b:1 answers, but not as an admin port of Holdfast"):
        ask()


def test_a_node_is_asked_where_another_server_does_not_answer_as_one(
    cluster: PaperCluster,
) -> None:
    """It is left for the next address, as one that does not answer."""
    cluster.nodes_status["b:1"] = {"stomp": "b:61613", "members": [{"stomp": "c:61613"}, {}]}
    made = write_options({"url": "a:1,b:1", "destination": "q"}, BODY)
    assert made.uri == "failover:(stomp://b:61613,stomp://c:61613)"


def test_the_furthest_node_says_how_far_bytes_reach(cluster: PaperCluster) -> None:
    """One that lags would name an entry before the one that was asked for."""
    cluster.last |= {"a": 3, "b": 7}
    assert 10 == LOG.reach(8, 100)
    cluster.faults["c"] = LinkLostError("gone")
    assert 9 == LOG.reach(9, 100)


def test_what_is_gone_at_one_node_is_asked_of_the_others(cluster: PaperCluster) -> None:
    """Nodes clean their logs when they come to it; only what is gone at all of them is gone."""
    cluster.gone = {"a", "b"}
    assert 4 == LOG.reach(2, 100)
    assert "c" == LOG.ask("GET", "/log?from=2")["by"]
    cluster.gone.add("c")
    for ask in (lambda: LOG.reach(2, 100), lambda: LOG.ask("GET", "/log?from=2")):
        with pytest.raises(RecordNotFoundError, match="gone at"):
            ask()
    assert 0 == cluster.slept


def test_a_node_that_is_away_may_still_have_it(cluster: PaperCluster) -> None:
    """It is waited for, as when entries are read; then what the others said is told."""
    cluster.gone = {"a", "b"}
    cluster.faults["c"] = LinkLostError("refused")
    with pytest.raises(RecordNotFoundError, match="gone at"):
        LOG.ask("GET", "/log?from=2")
    assert cluster.slept > 0


def test_the_newest_generation_rules(cluster: PaperCluster) -> None:
    """What a node that was left behind has more is not in the log any more."""
    cluster.last |= {"b": 7, "c": 6}
    cluster.generations |= {"b": 1, "c": 1}
    position = LOG.position()
    assert (7, 1) == (position.last_index, position.generation)
    assert ["c", "b"] == sorted(LOG.ranked(), reverse=True)
    assert list(range(1, 8)) == indexes(1, 7)
    assert "a" not in {node for node, _ in cluster.asked}


def test_nodes_of_two_clusters_are_refused(cluster: PaperCluster) -> None:
    """What comes would depend on who answers; one that belongs to none yet is passed over."""
    cluster.clusters["b"] = ""
    assert "c1" == LOG.position().cluster_id
    assert "b" not in LOG.ranked()
    cluster.clusters["c"] = "c2"
    for ask in (LOG.position, LOG.ranked, indexes):
        with pytest.raises(ConfigError, match="a of c1, c of c2"):
            ask()


def test_a_range_comes_from_a_follower(cluster: PaperCluster) -> None:
    """One node for all of it, while it answers; the leader is the last choice."""
    assert list(range(2, 10)) == indexes(2, 9)
    assert {"b"} == {node for node, _ in cluster.asked}
    assert ["b", "c", "a"] == LOG.ranked()


def test_a_node_that_dies_in_the_middle_is_left(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading goes on at the entry where it was, at another."""
    found: list[int] = []
    for block in LOG.blocks(1, 10):
        found += block.indexes.tolist()
        cluster.faults["b"] = LinkLostError("gone")
    assert list(range(1, 11)) == found
    assert ("c", 4) in cluster.asked


def test_a_node_that_lags_is_left_for_one_that_does_not(cluster: PaperCluster) -> None:
    """What it does not have yet, another has."""
    cluster.last["b"] = cluster.last["c"] = 5
    assert list(range(1, 11)) == indexes()
    assert ("a", 6) in cluster.asked


def test_a_damaged_copy_is_left_for_a_good_one(cluster: PaperCluster) -> None:
    """Rot on one node's disk does not end up in an archive."""
    cluster.damaged["b"] = 5
    assert list(range(1, 11)) == indexes()


def test_what_is_damaged_everywhere_is_damage(cluster: PaperCluster) -> None:
    """One entry, with the reason; the rest is read."""
    cluster.damaged = dict.fromkeys(NODES, 5)
    found = list(LOG.blocks(4, 6))
    ranges = [it for it in found if isinstance(it, DamagedRange)]
    assert [(5, 5)] == [(it.first_index, it.last_index) for it in ranges]
    assert "checksum" in str(ranges[0].error)
    assert isinstance(ranges[0].error, CorruptEntryError)


def test_a_cluster_that_is_away_for_a_moment_is_waited_for(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a power cut: a task does not fail for that."""
    cluster.faults = dict.fromkeys(NODES, LinkLostError("refused"))
    sleep = log_client.time.sleep

    def back(seconds: float) -> None:
        sleep(seconds)
        cluster.faults = {}

    monkeypatch.setattr(log_client.time, "sleep", back)
    assert [1, 2] == indexes(1, 2)
    assert cluster.slept == 1


def test_a_cluster_that_stays_away_is_an_error(cluster: PaperCluster) -> None:
    """Bounded patience, for entries, positions and questions."""
    cluster.faults = dict.fromkeys(NODES, LinkLostError("refused"))
    for ask in (indexes, LOG.position, LOG.queue_names):
        with pytest.raises(LinkLostError, match="refused"):
            ask()
    assert cluster.slept >= 3


def test_a_node_that_is_busy_is_left_for_one_that_is_not(cluster: PaperCluster) -> None:
    """At once: the leader gives what its followers have no slot for."""
    cluster.busy = {"b", "c"}
    assert indexes() == list(range(1, 11))
    assert cluster.slept == 0
    assert {node for node, _ in cluster.asked} >= {"a", "b"}


def test_who_finds_all_busy_waits_for_longer_than_for_the_dead(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others read, and will be done; the pauses grow. In the end it is told."""
    cluster.busy = set(NODES)
    pauses: list[float] = []
    wait = log_client.time.sleep

    def sleep(seconds: float) -> None:
        wait(seconds)
        pauses.append(seconds)
        if len(pauses) == 20:
            cluster.busy.clear()

    monkeypatch.setattr(log_client.time, "sleep", sleep)
    assert indexes() == list(range(1, 11))
    assert len(pauses) == 20
    assert max(pauses) <= 2.0
    assert sum(pauses[:3]) < sum(pauses[-3:])

    cluster.busy = set(NODES)
    cluster.faults["a"] = LinkLostError("away")
    with pytest.raises(BusyError, match="has 16"):
        indexes()
    assert len(pauses) > 20 + BUSY_SECONDS / 10 - 1


def test_many_who_wait_ask_little(cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Roles now and then, and never where the segments of a long log begin: a thousand may wait.
    """
    cluster.busy, cluster.sleeps_as_told = set(NODES), True
    rounds: list[float] = []
    wait = log_client.time.sleep

    def sleep(seconds: float) -> None:
        wait(seconds)
        rounds.append(seconds)
        if len(rounds) == 100:
            cluster.busy.clear()

    monkeypatch.setattr(log_client.time, "sleep", sleep)
    assert indexes() == list(range(1, 11))
    seconds = sum(rounds)
    assert seconds > 100
    assert len(cluster.questions) <= (seconds / RANK_SECONDS + 1) * len(NODES)
    assert set(cluster.questions) == {"/log/position?bases=false"}


def test_patience_with_the_dead_begins_when_nobody_is_busy_any_more(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who waited long for a slot still waits through a failover."""
    cluster.busy, cluster.sleeps_as_told = set(NODES), True
    waited = 0.0
    wait = log_client.time.sleep

    def sleep(seconds: float) -> None:
        nonlocal waited
        wait(seconds)
        waited += seconds
        if waited > 100:
            cluster.busy.clear()
            cluster.cut = set(NODES)
        if waited > 110:
            cluster.cut.clear()

    monkeypatch.setattr(log_client.time, "sleep", sleep)
    assert indexes() == list(range(1, 11))
    assert waited > 110


@pytest.mark.parametrize("what", ["damaged", "gone"])
def test_who_was_busy_to_the_end_may_have_a_good_copy(cluster: PaperCluster, what: str) -> None:
    """Then it is not damage, nor gone; and who has none is not asked for it again meanwhile."""
    cluster.busy = {"a", "c"}
    if what == "damaged":
        cluster.damaged["b"] = 1
    else:
        data = cluster.data

        def read(node: str, index: int, through: int) -> bytes:
            found = data(node, index, through)
            if node == "b":
                raise RecordNotFoundError("begins with entry 50")
            return found

        cluster.data = read  # type: ignore[method-assign]
    with pytest.raises(BusyError, match="has 16"):
        indexes()
    assert cluster.slept > BUSY_SECONDS / 10
    assert [node for node, _ in cluster.asked].count("b") == 1


def test_followers_are_asked_again_after_the_leader_stood_in(cluster: PaperCluster) -> None:
    """Where they have a slot again, the leader is left to its clients."""
    cluster.busy = {"b", "c"}
    cluster.answer_entries = 1
    found: list[int] = []
    for block in LOG.blocks(1, 10):
        found += block.indexes.tolist()
        if len(found) == 2:
            cluster.busy.clear()
    assert found == list(range(1, 11))
    assert {index for node, index in cluster.asked if node == "a"} == {1, 2}


def test_who_was_busy_is_not_asked_once_it_is_left_behind(cluster: PaperCluster) -> None:
    """A promotion by force has begun another history meanwhile, and it has a slot again."""
    cluster.busy = {"b", "c"}
    cluster.answer_entries = 1
    found: list[int] = []
    for block in LOG.blocks(1, 4):
        found += block.indexes.tolist()
        if len(found) == 1:
            cluster.busy.clear()
            cluster.generations["a"] = 1
    assert found == [1, 2, 3, 4]
    assert {node for node, index in cluster.asked if index > 1} == {"a"}


def test_a_node_that_hangs_does_not_hold_up_a_position(cluster: PaperCluster) -> None:
    """What is the same little for any log has three seconds; all segments have longer."""
    LOG.position()
    assert set(cluster.patience[:-1]) == {POSITION_SECONDS}
    assert cluster.patience[-1] == TIMEOUT_SECONDS >= 20


def test_a_position_is_not_less_than_what_the_node_told_just_now(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that was started anew between knows of less as committed."""
    ask = PaperLink.ask

    def forgetful(link: PaperLink, method: str, path: str, data: bytes | None) -> dict[str, Any]:
        answer = ask(link, method, path, data)
        if link.address == "a" and "bases" in answer:
            answer["commit_index"] = 3
        return answer

    monkeypatch.setattr(PaperLink, "ask", forgetful)
    assert LOG.position().last_index == 10
    assert LOG.position().bases == (1, 6)


def test_a_wrong_token_is_told_at_once(cluster: PaperCluster) -> None:
    """Asking again would not help."""
    cluster.faults = dict.fromkeys(NODES, AuthenticationError("the token is wrong"))
    for ask in (indexes, LOG.position, LOG.queue_names):
        with pytest.raises(AuthenticationError):
            ask()
    assert cluster.slept == 0


def test_a_witness_in_the_list_is_passed_over(cluster: PaperCluster) -> None:
    """It knows no users, and refuses whoever shows a token; the others take it."""
    cluster.faults = {"a": ForbiddenError("this node is a witness, which knows no users")}
    assert LOG.position().last_index == 10
    assert indexes()


def test_entries_that_are_gone_everywhere_are_told_at_once(
    cluster: PaperCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the node's sentence; one that still has them is found first."""
    gone = RecordNotFoundError("begins with entry 50")
    data = cluster.data

    def read(node: str, index: int, through: int) -> bytes:
        if node in missing:
            raise gone
        return data(node, index, through)

    monkeypatch.setattr(cluster, "data", read)
    missing = {"b", "c"}
    assert [1, 2] == indexes(1, 2)
    missing.add("a")
    with pytest.raises(RecordNotFoundError, match="begins with entry 50"):
        indexes()
    assert cluster.slept == 0


def test_a_question_goes_to_the_next_node(cluster: PaperCluster) -> None:
    """The first that answers."""
    cluster.faults["a"] = LinkLostError("refused")
    assert "b" == LOG.ask("POST", "/holds/x", {"index": 1})["by"]
    assert "token" not in repr(RemoteLog(NODES, token="word"))


def test_all_queues_are_named_however_many_pages_they_take(cluster: PaperCluster) -> None:
    """What is left out would be looked for in the whole log."""
    assert {1: "q 1", 2: "q 2"} == LOG.queue_names()


def test_durable_subscriptions_are_asked_of_the_node_itself(cluster: PaperCluster) -> None:
    """Not of the leader: it is this node's memory that an audit compares."""
    assert [{"number": 9}] == LOG.subscriptions()
    assert "/subscriptions?local" in cluster.questions


def test_pages_that_lead_nowhere_have_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Whoever listens where a node was answered always the same, and a job never ended.
    """
    answer = {"queues": [], "segments": [], "next": "b"}
    monkeypatch.setattr(RemoteLog, "ask", lambda *_, **_given: answer)
    log = RemoteLog(("a:1", "b:1"))
    with pytest.raises(LinkLostError, match="a:1, b:1 does not answer as a node does"):
        log.queues()
    answer["next"] = 7
    with pytest.raises(LinkLostError, match="a:1, b:1 does not answer as a node does"):
        remote_digests(log, lambda _count: None)
