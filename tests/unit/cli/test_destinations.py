"""
`holdfast queues`.
"""

from __future__ import annotations

import json

import pytest

from holdfast.admin.status import QueueStatus
from holdfast.cli import destinations

A = "127.0.0.1:8161"


def test_queues_are_a_table(cluster, run) -> None:
    """
    Held, in delivery, consumers, size, in, out, delivered again.
    """
    assert run("queues") == 0
    assert ["mail", "5", "2", "1", "2.0", "KiB", "10", "0", "0"] in [
        line.split() for line in run.out.splitlines()
    ]


def test_queues_as_json_are_what_the_node_said(cluster, run) -> None:
    """
    With the node whose view it is.
    """
    assert run("queues", "--json") == 0
    body = json.loads(run.out)
    assert (body["node"], body["queues"][0]["messages"]) == ("a", 5)


def test_all_pages_are_read(cluster, run) -> None:
    """
    A table and a document of all queues, however many answers they come in.
    """
    row = {"name": "a/b", "messages": 1}
    cluster.say("/queues", {"node": "a", "queues": [row], "next": "a/b"})
    rest = [{"name": "c", "messages": 2}, {"name": "d", "messages": 3}]
    cluster.say("/queues?after=a%2Fb", {"node": "a", "queues": rest, "next": None})
    assert run("queues", "--json") == 0
    assert json.loads(run.out) == {"node": "a", "queues": [row, *rest]}
    assert run("queues") == 0
    assert [line.split()[0] for line in run.out.splitlines()[2:]] == ["a/b", "c", "d"]


def test_watching_shows_rates_until_interrupted(cluster, run, monkeypatch) -> None:
    """
    The second look knows what came in since the first; a new leader's lower counts are no rate.
    """
    looks = iter(
        [
            [QueueStatus(name="mail", enqueued=110, acknowledged=0), QueueStatus(name="new")],
            None,
        ]
    )

    def sleep(seconds: float) -> None:
        assert seconds == 2.0
        following = next(looks)
        if following is None:
            raise KeyboardInterrupt
        cluster.set_queues(A, following)

    monkeypatch.setattr("time.sleep", sleep)
    assert run("queues", "--watch", "--interval", "2") == 0
    assert "in/s" in run.out
    assert [line.split()[-2:] for line in run.out.splitlines() if "mail" in line][-1] == ["50", "0"]


@pytest.mark.parametrize("before", [True, False])
def test_a_queue_is_purged(cluster, run, before: bool) -> None:
    """
    `--admin` may stand before or after the word purge.
    """
    cluster.say("/queues/orders%2Fnew/purge", {"purged": 1234}, address="h:1")
    admin = ["--admin", "h:1"]
    arguments = [*admin, "purge"] if before else ["purge", *admin]
    assert run("queues", *arguments, "orders/new") == 0
    assert cluster.changes == [("h:1", "POST", "/queues/orders%2Fnew/purge", {})]
    assert run.out == "1,234 messages were removed from orders/new\n"


def test_a_queue_is_deleted(cluster, run) -> None:
    """
    The answer tells how much went with it.
    """
    cluster.say("/queues/mail", {"deleted": "mail", "messages": 5})
    assert run("queues", "delete", "mail", "--yes") == 0
    assert run.out == "mail was removed, with 5 messages\n"


@pytest.mark.parametrize("command", ["purge", "delete"])
def test_a_person_is_asked_before_messages_go(cluster, run, monkeypatch, command: str) -> None:
    """
    On a terminal, and "no" leaves everything as it is.
    """
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: False)
    assert run("queues", command, "mail") == 1
    assert cluster.changes == []


def test_the_table_tells_whose_turn_it_is_if_it_is_anybodys() -> None:
    """A column that says nothing is left out."""
    plain = QueueStatus(name="plain")
    found = [
        plain,
        QueueStatus(name="b", sole_consumer="ann", is_draining=True),
        QueueStatus(name="c", sole_consumer="n1-1-2", is_grouped=True),
        QueueStatus(name="d", is_gate_closed=True),
        QueueStatus(name="e", is_grouped=True),
        QueueStatus(name="f", is_grouped=True, is_paused=True),
    ]
    table = destinations._queue_table(found, {"b": QueueStatus(name="b")}, 1.0)
    headers = [str(column.header) for column in table.columns]
    turns = [str(cell) for cell in table.columns[headers.index("turn")].cells]
    assert turns[:3] == ["-", "ann, once others let go", "n1-1-2 only"]
    assert turns[3:] == ["waits for consumers", "by group", "paused"]
    without = destinations._queue_table([plain], {}, 1.0)
    assert "turn" not in [str(column.header) for column in without.columns]
