"""
Any bytes on the client port of a real broker: an ERROR or a close, never an exception or a leak.

The seed of each run is in its name; a failure is replayed by running that test again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalNode
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

SEEDS = range(4)
CONNECT = b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:/\n\n\0"
FRAMES = (
    b"SEND\ndestination:/queue/fuzz\npersistent:true\nreceipt:1\n\nhello\0",
    b"SEND\ndestination:/topic/fuzz\ncontent-length:5\n\nhe\0lo\0",
    b"SEND\ndestination:/queue/fuzz\ntransaction:t\n\nhello\0",
    b"SUBSCRIBE\nid:0\ndestination:/queue/fuzz\nack:client\n\n\0",
    b"SUBSCRIBE\nid:1\ndestination:/topic/fuzz\nack:auto\nactivemq.prefetchSize:1\n\n\0",
    b"SUBSCRIBE\nid:2\ndestination:/topic/fuzz\nselector:NOT (a LIKE '%x' OR b IN ('d'))\n\n\0",
    b"UNSUBSCRIBE\nid:0\n\n\0",
    b"ACK\nid:1-1\nreceipt:2\n\n\0",
    b"NACK\nid:1-1\n\n\0",
    b"ACK\nid:ID\\cabc-1-1\n\n\0",
    b"BEGIN\ntransaction:t\n\n\0",
    b"COMMIT\ntransaction:t\nreceipt:3\n\n\0",
    b"ABORT\ntransaction:t\n\n\0",
    b"DISCONNECT\nreceipt:4\n\n\0",
    b"SEND\ndestination:/queue/fuzz\nproducer-id:p\nproducer-sequence:1\npersistent:true\n\n\0",
    b"\n\r\n\n",
)

UNDISTURBED_ROUNDS = 25
PATIENT_LOAD = LoadSettings(rate=2000, silence_seconds=20)
TURN_CPU_SECONDS_MAX = 0.2
"""Of a processor: how long a turn took beside that is for the machine's other work to say."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalNode]:
    """
    One broker for all of these; it lives through every one of them.
    """
    node = LocalNode("a", tmp_path_factory.mktemp("fuzz"), ["--segment", "1MiB"])
    node.start()
    try:
        node.wait_until(lambda status: status["serving"], "serving")
        yield node
    finally:
        node.kill()


def assert_unharmed(node: LocalNode, before: int = 0) -> None:
    """The broker runs, logged no exception, serves, and holds no dead connection."""
    text = node.log_path.read_text(errors="replace")

    assert "Traceback" not in text, text[-6000:]
    node.wait_until(lambda status: status["connections"] <= before, "rid of its connections", 10)
    with StompSocket(node.stomp_port) as client:
        client.connect()

        assert client.publish("/queue/unharmed", b"still here").command == "RECEIPT"


def feed(node: LocalNode, chunks: list[bytes]) -> bytes:
    """Write these to a new connection and give what the broker answered until it fell silent."""
    answer = b""
    with StompSocket(node.stomp_port, timeout_seconds=5) as client:
        with suppress(ConnectionError):
            for chunk in chunks:
                client.write(chunk)
        client.socket.settimeout(0.05)
        with suppress(ConnectionError, TimeoutError):
            while data := client.socket.recv(1 << 16):
                answer += data
    return answer


def noise(randomness: random.Random) -> list[bytes]:
    """Bytes of no meaning at all."""
    return [randomness.randbytes(randomness.randrange(1, 2000)) for _ in range(3)]


def mutated(randomness: random.Random) -> list[bytes]:
    """Good frames with bytes changed, put in, left out and doubled."""
    stream = bytearray(b"".join(randomness.choices(FRAMES, k=12)))
    for _ in range(randomness.randrange(1, 12)):
        place = randomness.randrange(len(stream))
        change = randomness.randrange(4)
        if change == 0:
            stream[place] = randomness.randrange(256)
        elif change == 1:
            stream[place:place] = randomness.randbytes(randomness.randrange(1, 9))
        elif change == 2:
            del stream[place : place + randomness.randrange(1, 9)]
        else:
            stream[place:place] = stream[place : place + 40]
    return [CONNECT, bytes(stream)]


def shuffled(randomness: random.Random) -> list[bytes]:
    """Good frames in any order, cut into any chunks."""
    stream = CONNECT * randomness.randrange(3) + b"".join(randomness.choices(FRAMES, k=20))
    cuts = sorted(randomness.sample(range(len(stream)), 6))
    return [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]


def truncated(randomness: random.Random) -> list[bytes]:
    """A frame that ends in the middle, and then the connection does too."""
    stream = b"".join(randomness.choices(FRAMES, k=3))
    return [CONNECT, stream[: randomness.randrange(len(stream))]]


@pytest.mark.parametrize("make", [noise, mutated, shuffled, truncated])
@pytest.mark.parametrize("seed", SEEDS)
def test_any_bytes_do_no_harm(
    broker: LocalNode, make: Callable[[random.Random], list[bytes]], seed: int
):
    """
    Forty connections of nonsense from one seed: the broker answers or closes, logs no exception,
    keeps no connection and goes on serving.
    """
    randomness = random.Random(f"{make.__name__} {seed}")
    for _ in range(40):
        feed(broker, make(randomness))

    assert_unharmed(broker)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"X" * 5000, id="a command without end"),
        pytest.param(CONNECT + b"SEND\n" + b"a" * 50_000, id="a header line without end"),
        pytest.param(CONNECT + b"SEND\n" + b"a:b\n" * 5000 + b"\n\0", id="too many headers"),
        pytest.param(
            CONNECT + b"SEND\ndestination:/queue/a\n" + b"".join(b"h%d:%b\n" % (n, b"v" * 9000)
            for n in range(60)) + b"\n\0", id="a header block too large",
        ),
        pytest.param(
            CONNECT + b"SEND\ndestination:/queue/a\ncontent-length:99999999999\n\n",
            id="a huge body",
        ),
        pytest.param(
            CONNECT + b"SEND\ndestination:/queue/a\ncontent-length:-5\n\n\0", id="a negative length"
        ),
        pytest.param(CONNECT + b"SEND\ndestination:/queue/a\n\\x:y\n\n\0", id="a wrong escape"),
        pytest.param(CONNECT + b"SEND\ndestination:/queue/\xff\xfe\n\n\0", id="no UTF-8"),
        pytest.param(CONNECT + b"GET / HTTP/1.1\r\n\r\n", id="another protocol"),
        pytest.param(CONNECT + CONNECT, id="connected twice"),
        pytest.param(b"SEND\ndestination:/queue/a\n\nx\0", id="not connected"),
        pytest.param(b"CONNECT\naccept-version:9.9\nhost:/\n\n\0", id="an unknown version"),
        pytest.param(
            CONNECT + b"SEND\ndestination:/queue/a\ncontent-length:1\n\nxy\0", id="no NUL"
        ),
    ],
)  # fmt: skip
def test_a_broken_rule_gets_an_error_and_a_close(broker: LocalNode, data: bytes):
    """
    Each limit and rule of the protocol, broken once: the client is told why, then it is cut off.
    """
    with StompSocket(broker.stomp_port) as client:
        with suppress(ConnectionError):
            client.write(data)
        frames = list(client.read_all(quiet_seconds=15.0))

    assert frames[-1].command == "ERROR", frames
    assert frames[-1].headers["message"]
    assert client.is_closed
    assert_unharmed(broker)


def test_nonsense_does_not_disturb_the_others(broker: LocalNode):
    """
    A producer and a consumer work while others send nonsense: nothing is lost, what goes on does so
    after each of it, and none of it keeps the broker at work for long.
    """
    with Load([f"127.0.0.1:{broker.stomp_port}"], PATIENT_LOAD) as load:
        randomness = random.Random("undisturbed")
        for _ in range(UNDISTURBED_ROUNDS):
            feed(broker, noise(randomness))
            feed(broker, mutated(randomness))
            load.wait_confirmed(20)
        account = load.finish()

    assert (account.lost, account.duplicates, account.errors) == (0, 0, ())
    assert load.reconnections == 0
    assert broker.status()["turn_cpu_seconds_max"] < TURN_CPU_SECONDS_MAX
    assert_unharmed(broker)


def test_many_connections_that_say_nothing_leave_nothing_behind(broker: LocalNode):
    """
    Two hundred sockets that only open and close: no descriptor stays open in the broker.
    """
    descriptors = Path(f"/proc/{broker.pid}/fd")
    before = len(list(descriptors.iterdir()))
    for _ in range(200):
        StompSocket(broker.stomp_port).close()
    assert_unharmed(broker)

    assert len(list(descriptors.iterdir())) <= before + 5
