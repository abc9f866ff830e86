"""
`holdfast shovel` between a real ActiveMQ, from Debian's package, and a real node: the way here and
back, and what is there after each was killed while it worked.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.client import connect
from holdfast.testing.local_cluster import LocalNode

sys.path.insert(0, str(Path(__file__).parents[2] / "benches"))

if TYPE_CHECKING:
    from activemq import ActiveMQ

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SECONDS_MAX = 180.0
COUNT = 600


@pytest.fixture(scope="module")
def activemq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ActiveMQ]:
    from activemq import ActiveMQ

    if ActiveMQ.missing():
        pytest.skip("ActiveMQ is not installed: apt-get install activemq")
    with ActiveMQ(tmp_path_factory.mktemp("activemq") / "broker", 1) as broker:
        yield broker


@pytest.fixture
def node(start_cluster: Any) -> LocalNode:
    found: LocalNode = start_cluster("single").leader()
    return found


def uri_of(broker: ActiveMQ) -> str:
    return f"failover:(stomp://{broker.address})?maxReconnectDelay=200"


def command(source: str, target: str, *said: str) -> list[str]:
    program = [sys.executable, "-m", "holdfast", "shovel", "--json"]
    return [*program, "--from", source, "--to", target, *said]


def shovel(source: str, target: str, *said: str) -> dict[str, Any]:
    done = subprocess.run(
        command(source, target, *said),
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


async def received(uri: str, queue: str, count: int) -> list[Any]:
    async with connect(uri) as connection, connection.subscribe(queue) as subscription:
        found = []
        while len(found) < count and (message := await subscription.receive(5)) is not None:
            await message.acknowledge()
            found.append(message)
        return found


def test_messages_go_there_and_back_as_they_were(activemq: ActiveMQ, node: LocalNode) -> None:
    """Bodies, properties and order, from every queue of a wildcard to the one of its name."""
    theirs, ours = uri_of(activemq), f"failover:({node.uri})"
    said = {"priority": "7", "correlation-id": "c1", "type": "T", "reply-to": "/queue/answers"}

    async def filled() -> None:
        async with connect(theirs) as connection:
            for queue in ("there.a", "there.b"):
                async with connection.producer(f"/queue/{queue}") as producer:
                    for number in range(150):
                        await producer.send(f"{queue} {number} ü", headers=said | {"n": number})
            await connection.send("/queue/there.a", bytes(range(256)), headers={"colour": "r:\\"})

    asyncio.run(filled())
    assert shovel(theirs, ours, "/queue/there.>")["carried"] == 301
    there = asyncio.run(received(ours, "/queue/there.b", 150))
    assert [it.text for it in there] == [f"there.b {number} ü" for number in range(150)]
    first = there[0].headers
    assert said.items() <= first.items()
    assert (first["n"], first["shovel-hops"]) == ("0", "1")
    assert first["original-message-id"].startswith("ID:")

    assert shovel(ours, theirs, "there.a=back.a")["carried"] == 151
    back = asyncio.run(received(theirs, "/queue/back.a", 151))
    assert [it.body for it in back[:2]] == [b"there.a 0 \xc3\xbc", b"there.a 1 \xc3\xbc"]
    assert (back[-1].body, back[-1].headers["colour"]) == (bytes(range(256)), "r:\\")
    assert {it.headers["shovel-hops"] for it in back} == {"2"}


@pytest.mark.parametrize("is_from_activemq", [True, False], ids=["to us", "from us"])
def test_nothing_is_lost_over_the_end_of_either(
    activemq: ActiveMQ, node: LocalNode, is_from_activemq: bool
) -> None:
    """Both are killed while it works; whatever comes twice says that it may."""
    theirs, ours = uri_of(activemq), f"failover:({node.uri})?maxReconnectDelay=200"
    source, target = (theirs, ours) if is_from_activemq else (ours, theirs)
    queue = f"/queue/over.{is_from_activemq}"

    async def filled() -> None:
        async with connect(source) as connection, connection.producer(queue) as producer:
            for number in range(COUNT):
                await producer.send(b"%d" % number)

    asyncio.run(filled())
    with subprocess.Popen(
        command(source, target, f"{queue}=arrived", "--follow", "--quiet"), stdout=subprocess.PIPE
    ) as working:
        try:
            found = asyncio.run(_received_over_ends(target, activemq, node))
            working.terminate()
            told = json.loads(working.communicate(timeout=SECONDS_MAX)[0])
        finally:
            working.kill()
    # ActiveMQ forgets with its process to whom it had delivered: one id is one message.
    found = list({it.id: it for it in reversed(found)}.values())
    numbers = Counter(int(it.body) for it in found)
    assert sorted(numbers) == list(range(COUNT))
    marked = {
        int(it.body) for it in found if it.headers.get("possible-duplicate") or it.redelivered
    }
    assert {it for it, times in numbers.items() if times > 1} <= marked
    assert (working.returncode, told["staying"]) == (0, 0)
    assert asyncio.run(received(source, queue, 1)) == []


async def _received_over_ends(target: str, activemq: ActiveMQ, node: LocalNode) -> list[Any]:
    """All that comes to the target while both are killed and started again."""
    found: list[Any] = []

    def kill_theirs() -> None:
        assert activemq.process is not None
        activemq.process.kill()
        activemq.process.wait()
        activemq.start()

    def kill_ours() -> None:
        node.kill()
        node.start()

    async with (
        asyncio.timeout(SECONDS_MAX),
        connect(target) as connection,
        connection.subscribe("/queue/arrived", prefetch=100) as subscription,
    ):
        kills = [(COUNT // 6, kill_ours), (COUNT // 3, kill_theirs)]
        numbers: set[int] = set()
        while len(numbers) < COUNT:
            message = await anext(subscription)
            found.append(message)
            numbers.add(int(message.body))
            await message.acknowledge()
            if kills and len(numbers) >= kills[0][0]:
                await asyncio.to_thread(kills.pop(0)[1])
        while (message := await subscription.receive(1)) is not None:
            found.append(message)
            await message.acknowledge()
    return found
