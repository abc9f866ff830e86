"""
One node, killed without warning under load: what was confirmed is there when it comes back.
"""

from __future__ import annotations

import random

import pytest

from holdfast.testing.local_cluster import LocalNode
from trials.clients.load import Load, LoadSettings

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.mark.parametrize("round_number", range(2))
@pytest.mark.promise("F3")
def test_nothing_confirmed_is_lost_when_the_broker_is_killed(start_cluster, round_number):
    """
    After SIGKILL at a random moment and a restart every confirmed message is delivered, whole, in
    order, and what was delivered twice says so.
    """
    cluster = start_cluster("single")
    node = cluster.leader()
    with Load([f"127.0.0.1:{node.stomp_port}"], LoadSettings(producers=2, consumers=2)) as load:
        for _ in range(2):
            load.wait_confirmed(random.randrange(500, 3000))
            node.kill()
            node.start()
        load.wait_confirmed(500)
        account = load.finish()

    assert (account.lost, account.corrupt, account.foreign, account.unflagged) == (0, 0, 0, 0)
    assert (account.reordered, account.unconfirmed) == (0, 0)


@pytest.mark.promise("F30")
def test_a_producer_with_numbers_stores_nothing_twice(start_cluster):
    """
    A producer that numbers its messages and sends again after a kill finds each stored once, and an
    acknowledgement that was confirmed stays so.
    """
    node = start_cluster("single").leader()
    settings = LoadSettings(deduplicated=True, settle_receipts=True)
    with Load([f"127.0.0.1:{node.stomp_port}"], settings) as load:
        for _ in range(2):
            load.wait_confirmed(2000)
            node.kill()
            node.start()
        load.wait_confirmed(200)
        account = load.finish()

    assert (account.lost, account.stored_twice, account.resurrected) == (0, 0, 0)
    assert (account.reordered, account.unflagged, account.errors) == (0, 0, ())


def test_a_backlog_survives_and_is_drained_in_order(start_cluster):
    """
    What nobody consumed before the kill is read back from the log afterwards, all of it, in order.
    """
    node = start_cluster("single").leader()
    address = f"127.0.0.1:{node.stomp_port}"
    filling = LoadSettings(consumers=0, count_max=6000, rate=20_000)
    with Load([address], filling) as load:
        load.wait_all_confirmed()
        before = load.ledger
        node.kill()
        node.start()
        node.wait_until(lambda status: status["serving"], "serving")
        live = _live(node)
        drain = Load([address], LoadSettings(producers=0))
        drain.ledger = before
        with drain:
            account = drain.finish()

    assert live == 6000
    assert (account.delivered, account.lost, account.reordered, account.corrupt) == (6000, 0, 0, 0)


def _live(node: LocalNode) -> int:
    status = node.status()
    assert status is not None
    return status["store"]["live_messages"]
