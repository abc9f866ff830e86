"""
Data directories of every level of the log's format are read for ever, by whatever reads a log.

`node-of-level-1` was left behind by a node of the last version before facts, with its checkpoint;
`log-format-1` by one of long before; `log-format-2` has a message with each kind of fact, and one
of most other records. `node-of-level-2` is the last version's before policies, with its checkpoint;
`log-format-3` has policies of each kind. `node-of-level-3` is the last version's before returns,
with its checkpoint; `log-format-4` has returns of each kind, `log-format-5` moves,
`log-format-6` messages in groups, `log-format-7` some that expire, and have, `log-format-8` some
that are scheduled, and have fired, `log-format-9` some that went as newer ones came,
`log-format-10` some with priorities, `log-format-11` a topic with durable subscriptions,
`log-format-13` users and grants. They are never written again.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.cli.main import app
from holdfast.environment.disk import RealDisk
from holdfast.journal.entry import KIND_RECORDS
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.model.facts import PRIORITY_DEFAULT, MessageFacts
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.groups import group_hash
from holdfast.model.records import MessageRecord
from holdfast.model.schedules import FOREVER
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from holdfast.store.access_rows import access_row
from holdfast.store.record_codec import decode_records, encode_records
from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket
from trials.pipeline.written_log import EACH_FACT

DATA = Path(__file__).parents[1] / "data"
CHAINS = {
    "log-format-1": "35e0e2a83abe27341b50a2c58780087f",
    "node-of-level-1": "5ea10d89399b7e489176c39c301552bc",
    "log-format-2": "0d620069f1d7edbd8fdd1ed71bf9dd24",
    "node-of-level-2": "b42fd3ef90593e8a3c3385a1e4101bc1",
    "log-format-3": "bf715e853b5d5649bc46e1c5085393e5",
    "node-of-level-3": "a75ca145a2441217877e88410c90e893",
    "log-format-4": "e4d3f2b7c44dd5116f232d93e4901174",
    "log-format-5": "ff9f0fb8706b43bacb268a8abfd7f93e",
    "log-format-6": "7ae62ed7e02591ce011e835635390ec7",
    "log-format-7": "8237f4dbaa62eae9ea1bb3da9ba9c282",
    "log-format-8": "d506a2aa575a27db6db9772b200d6608",
    "log-format-9": "f7f3f5d0f76e29cdc9af17e955435304",
    "log-format-10": "d569879635f60b31c3cc1c79532327cd",
    "log-format-11": "42ec00aa51be378ceecd9d3a99448b8b",
    "log-format-13": "cb73916893197785cadf9f90f32e8b51",
}
LIVE = {
    "log-format-1": Counter({1: 12}),
    "node-of-level-1": Counter({1: 2, 2: 1, 3: 1}),
    "log-format-2": Counter({1: 9, 8: 1, 9: 1}),
    "node-of-level-2": Counter({1: 2, 2: 1, 3: 1}),
    "log-format-3": Counter({1: 1, 2: 1}),
    "node-of-level-3": Counter({1: 2, 2: 1, 3: 1}),
    "log-format-4": Counter({1: 5, 2: 1}),
    "log-format-5": Counter({1: 3, 2: 3, 3: 1}),
    "log-format-6": Counter({1: 2, 2: 3}),
    "log-format-7": Counter({1: 3, 2: 3}),
    "log-format-8": Counter({1: 3, 2: 3}),
    "log-format-9": Counter({1: 2, 2: 3}),
    "log-format-10": Counter({1: 3, 2: 2}),
    "log-format-11": Counter({1: 1, 2: 2}),
    "log-format-13": Counter({1: 2}),
}
"""How many messages live on each queue, by its number."""

MESSAGES = {"log-format-1": 12, "node-of-level-1": 6, "log-format-2": 12}
MESSAGES |= {"node-of-level-2": 6, "log-format-3": 3, "node-of-level-3": 5, "log-format-4": 9}
MESSAGES |= {"log-format-5": 7, "log-format-6": 6, "log-format-7": 7, "log-format-8": 5}
MESSAGES |= {"log-format-9": 6, "log-format-10": 7, "log-format-11": 6, "log-format-13": 2}
DEAD = {"log-format-5": 0, "log-format-1": 0, "node-of-level-1": 0, "log-format-2": 3}
DEAD |= {"node-of-level-2": 1, "log-format-3": 1, "node-of-level-3": 1, "log-format-4": 0}
DEAD |= {"log-format-6": 0, "log-format-7": 0, "log-format-8": 0, "log-format-9": 0}
DEAD |= {"log-format-10": 0, "log-format-11": 0, "log-format-13": 0}
"""Message records, and those that say why they are dead letters."""

LEVEL = {"log-format-5": 5, "log-format-1": 1, "node-of-level-1": 1, "log-format-2": 2}
LEVEL |= {"node-of-level-2": 2, "log-format-3": 3, "node-of-level-3": 3, "log-format-4": 4}
LEVEL |= {"log-format-6": 6, "log-format-7": 7, "log-format-8": 8, "log-format-9": 9}
LEVEL |= {"log-format-10": 10, "log-format-11": 11, "log-format-13": 13}

RETURNED = {
    "log-format-2": {(1, 11): Returned(3, 2)},
    "log-format-4": {
        (1, 2): Returned(3, 1, 1_900_000_000_000),
        (1, 3): Returned(3, 2),
        (1, 5): Returned(1),
        (1, 6): Returned(1, 1),
        (2, 9): Returned(4, 2),
    },
    "log-format-6": {(1, 3): Returned(1, 1)},
    "log-format-11": {(3, 4): Returned(1, 1), (4, 5): Returned(1, 0, 1_900_000_000_001)},
}
"""What of the messages there came back, by queue and sequence."""

GROUPS = {
    "log-format-2": {(1, sequence): 0xCAFE for sequence in (3, 10, 11)},
    "log-format-6": {
        (1, 3): group_hash("größe"),
        (2, 1): group_hash("a"),
        (2, 2): group_hash("b"),
        (2, 3): group_hash("größe"),
    },
}
"""Those that are in groups, with the hashes of these."""

GROUPS |= {"log-format-7": {(1, 3): group_hash("a")}, "log-format-10": {(2, 1): 5}}
GROUPS |= {
    "log-format-8": {(1, 2): group_hash("a"), (2, 1): group_hash("a"), (2, 3): group_hash("a")}
}
EXPIRE = {
    "log-format-2": {
        (1, 3): 1_800_000_000_000,
        (1, 4): 1_750_000_000_000,
        (1, 10): 1_750_000_000_000,
        (1, 11): 1_800_000_000_000,
    },
    "log-format-7": {
        (1, 2): 1_900_000_000_000,
        (1, 3): 1_900_000_000_001,
        (2, 2): 1_900_000_000_003,
        (2, 3): 1_900_000_000_002,
    },
    "log-format-8": {
        (1, 1): 1_900_000_000_000,
        (1, 2): 1_900_000_000_001,
        (1, 5): 1_900_000_000_002,
        (2, 1): 1_900_000_000_009,
    },
    "log-format-11": {(2, 4): 1_900_000_000_000, (3, 4): 1_900_000_000_000},
}
"""When those expire that do, or are due that never came back."""

REPEATS = {"log-format-8": {(1, 2): 7, (1, 5): FOREVER}}
"""How often what is scheduled there is sent after the next time."""

PRIORITIES = {
    "log-format-2": {(1, sequence): 7 for sequence in (3, 10, 11)},
    "log-format-10": {(1, 3): 0, (1, 5): 1, (2, 1): 7},
    "log-format-11": {(2, 4): 7, (3, 4): 7},
}
"""Those that have not the usual priority."""

SEEN = {"log-format-10": {1: ((4, 8),)}, "log-format-11": {3: ((80, 90),)}}
"""What may have been seen beyond the dispatch mark."""

NEEDED = {"log-format-11": {("ann", "mine"): [4, 5], ("ben", "größe"): [5]}}
"""What durable subscriptions need, by client-id and name."""

POLICIES = {
    (False, "queue://orders", '{"queuePrefetch":7}'),
    (True, "", ""),
    (True, "queue://>", '{"queuePrefetch":500}'),
}
"""What is left there of several policies: an operator's, and those of the newest file."""


ACCESS = {
    "user": ("zoë", 1_700_000_000_002, ["größe", "viewer"], ["tokens"]),
    "sales": 2,
    "größe": 1,
}
"""The user who is left there, and the rights of the roles that have any."""


@pytest.fixture(params=sorted(CHAINS))
def name(request: pytest.FixtureRequest) -> str:
    value: str = request.param
    return value


@pytest.fixture
def folder(name: str, tmp_path: Path) -> Path:
    """A copy of a directory, for whoever writes beside the log."""
    return Path(shutil.copytree(DATA / name, tmp_path / "holdfast"))


@pytest.fixture
def journal(folder: Path) -> Iterator[Journal]:
    journal = Journal.open(folder, RealDisk(), JournalSettings())
    yield journal
    journal.close()


def access_of(state: BrokerState) -> dict[str, object]:
    """Users and grants as they are written above."""
    found: dict[str, object] = {key.role: it.rights for key, it in state.access.grants.items()}
    for user in state.access.users.values():
        found["user"] = tuple(access_row(user)[1].values())
    return found


def test_the_journal_and_the_broker_read_it(name: str, journal: Journal) -> None:
    """
    Entries and chain are as they were; records give their bytes again; what lives is what lived.
    """
    assert (journal.last_chain.hex(), journal.damage) == (CHAINS[name], [])
    state = BrokerState(BrokerSettings())
    for index in range(journal.first_index, journal.last_index + 1):
        entry = journal.entry(index)
        if entry.kind == KIND_RECORDS:
            records = list(decode_records(entry.body))
            assert b"".join(encode_records(records)) == bytes(entry.body)
            state.apply(entry.first_record, records, entry.timestamp, entry.term)
    needed = {key: [*it.index.sequences(1, 100)] for key, it in state.subscriptions.items()}
    assert needed == NEEDED.get(name, {})
    views = {each.number for each in state.subscriptions.values()}
    live = {each.number: each.index.live_count for each in state.queues.values()}
    live = {number: count for number, count in live.items() if number not in views}
    assert Counter(live) == LIVE[name]
    assert state.format_level == LEVEL[name]
    said = {(*key, record.values) for key, record in state.policies.by_key.items()}
    assert said == (POLICIES if name == "log-format-3" else set())
    assert access_of(state) == (ACCESS if name == "log-format-13" else {})
    came_back = {
        (number, sequence): queue.index.returned(sequence)
        for number, queue in state.queues.items()
        for sequence in queue.index.sequences(1, 100)
    }
    came_back = {place: it for place, it in came_back.items() if it != NEVER}
    assert came_back == RETURNED.get(name, {})
    in_groups = {
        (number, sequence): queue.index.group_hash(sequence)
        for number, queue in state.queues.items()
        for sequence in queue.index.sequences(1, 100)
        if queue.index.group_hash(sequence)
    }
    assert in_groups == GROUPS.get(name, {})
    expire = {
        (number, sequence): queue.index.expires_ms(sequence)
        for number, queue in state.queues.items()
        for sequence in queue.index.sequences(1, 100)
        if queue.index.expires_ms(sequence)
    }
    assert expire == EXPIRE.get(name, {})
    repeats = {
        (number, sequence): queue.index.repeats(sequence)
        for number, queue in state.queues.items()
        for sequence in queue.index.sequences(1, 100)
        if queue.index.repeats(sequence)
    }
    assert repeats == REPEATS.get(name, {})
    priorities = {
        (number, sequence): queue.index.priority(sequence)
        for number, queue in state.queues.items()
        for sequence in queue.index.sequences(1, 100)
        if queue.index.priority(sequence) != PRIORITY_DEFAULT
    }
    assert priorities == PRIORITIES.get(name, {})
    seen = {number: queue.seen for number, queue in state.queues.items() if queue.seen}
    assert seen == SEEN.get(name, {})


def test_store_verify_reads_it(name: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """
    Every entry, its checksums, its records and the chain.
    """
    with pytest.raises(SystemExit) as ended:
        app(["store", "verify", str(folder)])
    told = capsys.readouterr().out
    assert ended.value.code == 0, told
    assert CHAINS[name] in told
    assert "everything stored is whole" in told


def test_spark_reads_it(name: str, folder: Path) -> None:
    """
    The messages as the codec reads them, their facts as columns; and what is live.
    """
    for view, column in (
        ("messages", "index, queue_number, cause, body"),
        ("backlog", "index, queue_number"),
    ):
        options = read_options({"path": str(folder), "view": view, "columns": column})
        reader = BatchReader(options)
        rows = [
            row
            for partition in reader.partitions()
            for batch in reader.read(partition)
            for row in batch.to_pylist()
        ]
        if view == "messages":
            assert len(rows) == MESSAGES[name]
            assert sum(row["cause"] is not None for row in rows) == DEAD[name]
        else:
            assert Counter(row["queue_number"] for row in rows) == LIVE[name]


def test_the_one_of_level_2_has_every_fact(tmp_path: Path) -> None:
    """
    Alone and together: none of their bytes may ever be read as anything else.
    """
    folder = shutil.copytree(DATA / "log-format-2", tmp_path / "holdfast")
    journal = Journal.open(Path(folder), RealDisk(), JournalSettings())
    found = []
    for index in range(journal.first_index, journal.last_index + 1):
        entry = journal.entry(index)
        if entry.kind == KIND_RECORDS:
            records = decode_records(entry.body)
            found += [it.facts for it in records if isinstance(it, MessageRecord) and it.facts]
    journal.close()
    assert found[: len(EACH_FACT)] == [MessageFacts(**{it: EACH_FACT[it]}) for it in EACH_FACT]
    assert found[len(EACH_FACT)] == MessageFacts(**EACH_FACT | {"places": ()})


@pytest.mark.processes
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["node-of-level-1", "node-of-level-2", "node-of-level-3", "log-format-2"]
)
def test_a_node_serves_it(name: str, folder: Path) -> None:
    """
    A checkpoint of long before is thrown away, one of the last format is read; dead letters of both
    levels look alike; it goes on.
    """
    node = LocalNode("holdfast", folder.parent)
    node.start()
    try:
        # A log of the newest level tells it before its node leads: its port may still be closed.
        node.wait_until(lambda status: status["serving"], "serving")
        node.wait_until(lambda status: status["format_level"] == NEWEST_LEVEL, "at the newest")
        with StompSocket(node.stomp_port) as client:
            client.connect()
            client.subscribe("/queue/ActiveMQ.DLQ")
            dead = client.read_message()
            assert dead.headers["own"] == "1"
            assert dead.headers["dlqDeliveryFailureCause"] == "rejected"
            assert dead.headers["original-destination"].startswith("/queue/or")
            assert dead.headers["original-message-id"].startswith(r"ID\c")
            assert client.acknowledge(dead).command == "RECEIPT"
            assert client.publish("/queue/orders", b"one more").command == "RECEIPT"
        assert node.stop() == 0
        ignored = "a checkpoint of another format" in node.log_path.read_text()
        assert ignored == (name == "node-of-level-1")
    finally:
        node.kill()
