"""
Transactions that fill an entry larger than every buffer on its way.
"""

from __future__ import annotations

import pytest

from holdfast.model.limits import MiB
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

COUNT, SIZE = 10, 4 * MiB
# The election timeouts of a node that is not told any.
USUAL = ("--election-seconds-min", "1.0", "--election-seconds-max", "2.0")


def test_two_large_transactions_committed_with_one_write_are_replicated(start_cluster):
    """
    A pair confirms them, each as an entry of its own, and goes on; nobody loses the lead over it,
    and both nodes hold the same.
    """
    cluster = start_cluster("pair", *USUAL)
    leader = cluster.leader()
    term = leader.status()["term"]
    with StompSocket(leader.stomp_port, timeout_seconds=60.0) as client:
        client.connect()
        for name in ("t1", "t2"):
            client.send("BEGIN", {"transaction": name})
            for number in range(COUNT):
                headers = {"destination": "/queue/large", "persistent": "true"}
                headers |= {"transaction": name, "content-length": str(SIZE)}
                client.send("SEND", headers, bytes([65 + number]) * SIZE)
        commits = [f"COMMIT\ntransaction:{it}\nreceipt:{it}\n\n\0" for it in ("t1", "t2")]
        client.write("".join(commits).encode())
        for name in ("t1", "t2"):
            assert client.await_receipt(name).command == "RECEIPT"
        assert client.publish("/queue/small", b"after").command == "RECEIPT"
    cluster.wait_level()
    assert leader.status()["term"] == term
    sizes = [path.stat().st_size for path in leader.data.glob("journal/*.segment")]
    assert max(sizes) < 60 * MiB


def test_a_transaction_that_fits_no_entry_is_refused_at_once(start_cluster):
    """
    The send that is too much is answered with an ERROR that says so; nothing of it is stored.
    """
    cluster = start_cluster()
    node = cluster.leader()
    with StompSocket(node.stomp_port, timeout_seconds=30.0) as client:
        client.connect()
        client.send("BEGIN", {"transaction": "t"})
        answers = []
        while len(answers) < 20:
            headers = {"destination": "/queue/large", "persistent": "true", "transaction": "t"}
            headers |= {"content-length": str(SIZE)}
            answers.append(client.ask("SEND", headers, b"x" * SIZE))
            if answers[-1].command == "ERROR":
                break
        assert [it.command for it in answers] == [*["RECEIPT"] * 14, "ERROR"]
        assert "commit more often" in answers[-1].headers["message"] + answers[-1].body.decode()
