"""
Poison in a message group: it is found, its group waits behind it, and all other groups go on.
"""

from __future__ import annotations

from collections import defaultdict

import pytest

from holdfast.broker.lasting.returns import Returned
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord
from tests.unit.sessions.poison import POISON, consumer, dead, die, messages, said


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    said(desk, '{"maximumRedeliveries":1,"redeliveryDelay":0,"initialRedeliveryDelay":0}')
    return desk


def sent(desk, *all_bodies: str, persistent: str = "true") -> None:
    """Send messages like `a1`: of group a, the first one."""
    client = desk.connect()
    for body in all_bodies:
        client.send(body.encode(), JMSXGroupID=body[0], persistent=persistent)
    desk.turn()


def bodies(found: list) -> list[str]:
    return [message.body.decode() for message in found]


def acknowledge(client, found: list) -> None:
    for message in found:
        client.say("ACK", id=message.headers["ack"])


def lose(desk, times: int, prefetch: int = 100) -> None:
    """Let somebody get all there is, so often, and die."""
    for _ in range(times):
        client = consumer(desk, prefetch)
        messages(client)
        die(client)


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_only_the_poison_of_a_group_is_dead(desk, persistent: str) -> None:
    """
    Q25 with groups: three workers with twenty each, one message that kills each of them. All others
    are done, those of each group in order, and few workers have died.
    """
    orders = [f"{group}{number:02}" for number in range(12) for group in "abcdefgh"]
    sent(desk, *orders[:35], "c-" + POISON, *orders[35:], persistent=persistent)
    workers = [consumer(desk, 20) for _ in range(3)]
    done: dict[str, list[str]] = defaultdict(list)
    died = 0
    while sum(map(len, done.values())) < len(orders):
        was_idle = True
        for place, worker in enumerate(workers):
            for message in messages(worker):
                was_idle = False
                body = message.body.decode()
                if body.endswith(POISON):
                    died += 1
                    die(worker)
                    workers[place] = consumer(desk, 20)
                    break
                done[body[0]].append(body)
                worker.say("ACK", id=message.headers["ack"])
        assert not was_idle, "nothing stands still"
    assert all(each == sorted(each) for each in done.values())
    assert died == 3 + 2
    assert dead(desk) == (["c-" + POISON] if persistent == "true" else [])


def test_a_group_waits_behind_it_and_the_others_go_on(desk) -> None:
    """Whoever has it has nothing else; what is behind it comes once it is settled."""
    sent(desk, "a1", "a2")
    lose(desk, 3)
    sent(desk, "a3", "b1", "b2")
    first, second = consumer(desk, 10), consumer(desk, 10)
    (alone,) = messages(first)
    assert bodies([alone]) == ["a1"]
    others = messages(second)
    assert bodies(others) == ["b1", "b2"]
    acknowledge(first, [alone])
    found = messages(first) + messages(second)
    assert bodies(found) == ["a2"]


def test_where_all_are_at_work_one_runs_empty_for_it(desk) -> None:
    """The other one goes on; and the first one, too, afterwards."""
    sent(desk, "b1", "b2", "c1", "c2")
    first, second = consumer(desk, 2), consumer(desk, 2)
    held, others = messages(first), messages(second)
    assert [len(held), len(others)] == [2, 2]
    sent(desk, "a1", "a2")
    lose(desk, 3)
    acknowledge(first, held[:1])
    acknowledge(second, others[:1])
    desk.turn()
    sent(desk, "d1")
    assert [len(messages(first)), len(messages(second))] in ([0, 1], [1, 0]), "one gets nothing"
    acknowledge(first, held[1:])
    acknowledge(second, others[1:])
    (alone,) = [*messages(first), *messages(second)]
    assert bodies([alone]) == ["a1"]


def test_a_new_leader_goes_on_where_the_last_one_was(desk) -> None:
    """What was counted stands in the log; so the first who comes has it alone."""
    sent(desk, "a1", "a2", "b1")
    lose(desk, 3)
    desk.fail_over()
    client = consumer(desk)
    (alone,) = messages(client)
    assert bodies([alone]) == ["a1"]
    die(client)
    index = desk.broker.queue("orders").index
    assert [index.returned(key) for key in (1, 2, 3)] == [
        Returned(4, 1),
        Returned(3, 0),
        Returned(3, 0),
    ]


def test_the_only_consumer_has_it_alone_too(desk) -> None:
    """It runs empty for it, and has all its room again then."""
    sent(desk, "a1", "a2", "b1")
    lose(desk, 3)
    sole = consumer(desk, 10, activemq__exclusive="true")
    done = []
    for _ in range(3):
        (alone,) = messages(sole)
        done += bodies([alone])
        acknowledge(sole, [alone])
    assert sorted(done) == ["a1", "a2", "b1"]
    assert done.index("a1") < done.index("a2")
    sent(desk, "a3", "b2")
    assert bodies(messages(sole)) == ["a3", "b2"]


def test_what_expires_while_it_waits_holds_nobody_up(desk) -> None:
    """Those behind it in its group come."""
    sent(desk, "b1", "b2")
    busy = consumer(desk, 2)
    held = messages(busy)
    for body in (b"a1", b"a2"):
        desk.connect().send(body, JMSXGroupID="a", expiration="1000")
    lose(desk, 3)
    sent(desk, "a3")
    acknowledge(busy, held[:1])
    assert messages(busy) == []
    desk.broker.sending.now_microseconds += 1_000_000
    desk.broker.expiring.step()
    desk.turn()
    acknowledge(busy, held[1:])
    assert bodies(messages(busy)) == ["a3"]
    sent(desk, "b3")
    assert bodies(messages(busy)) == ["b3"], "it has all its room again"
