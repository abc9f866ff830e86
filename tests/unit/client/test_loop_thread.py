"""
The loop's thread, and what becomes of it in a forked child and when the program ends.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
import threading

import pytest
from threaded_broker import Threaded, within

from holdfast.client.loop_thread import LoopThread
from holdfast.errors import LinkLostError, MisplacedCallError

QUEUE = "/queue/a"


def program(text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(text), *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )


def test_whoever_waits_when_the_loop_is_stopped_gets_an_error() -> None:
    """A wait that nothing else would end is cancelled; the waiting thread hears that in words."""
    thread = LoopThread()
    waiting = asyncio.Event()
    begun = threading.Event()
    ends: list[BaseException] = []

    async def forever() -> None:
        begun.set()
        await waiting.wait()

    def called() -> None:
        try:
            thread.run(forever())
        except LinkLostError as error:
            ends.append(error)

    caller = threading.Thread(target=called, daemon=True)
    caller.start()
    assert begun.wait(20)
    within(thread.stop)
    caller.join(20)
    assert [str(end) for end in ends] == ["the connection was closed meanwhile"]


def test_what_was_called_before_the_stop_is_run_and_nothing_after() -> None:
    """Whoever calls afterwards is told; stopping twice does nothing."""
    thread = LoopThread()
    done: list[int] = []
    for number in range(100):
        thread.call(done.append, number)
    thread.stop()
    thread.stop()
    assert done == list(range(100))
    with pytest.raises(LinkLostError):
        thread.call(done.append, 100)
    with pytest.raises(LinkLostError):
        thread.run(asyncio.sleep(0))


def test_the_loops_own_thread_must_not_wait_for_itself() -> None:
    """It would wait for ever: an error says so at once."""
    thread = LoopThread()
    ends: list[type[BaseException]] = []
    ended = threading.Event()

    def called() -> None:
        try:
            thread.run(asyncio.sleep(0))
        except MisplacedCallError as error:
            ends.append(type(error))
        ended.set()

    thread.call(called)
    assert ended.wait(20)
    thread.stop()
    assert ends == [MisplacedCallError]


SEND_AND_END = """
    import sys
    from holdfast.client import blocking

    blocking.EXIT_SECONDS_MAX = float(sys.argv[2])
    connection = blocking.connect(sys.argv[1])
    producer = connection.producer("/queue/a")
    for number in range(500):
        producer.send(str(number))
"""


def test_a_program_that_ends_without_closing_stores_what_it_handed_over(
    threaded: Threaded,
) -> None:
    """None of 500 was stored, and it ended with 0 and without a word."""
    ended = program(SEND_AND_END, threaded.broker.uri, "20")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert threaded.broker.store.bodies(QUEUE) == [str(number).encode() for number in range(500)]


def test_a_program_that_ends_without_closing_says_what_is_not_stored(threaded: Threaded) -> None:
    """The broker confirms nothing in time, or refuses: on standard error stands how many."""
    broker = threaded.broker
    threaded.do(lambda: setattr(broker, "is_holding", True))
    # CONNECTED is not held back, receipts are.
    ended = program(SEND_AND_END, broker.uri, "0.1")
    assert "not all is stored" in ended.stderr
    assert "500 messages to /queue/a" in ended.stderr
    threaded.do(broker.release)
    broker.refuse = lambda event: ("refused", "no room") if event in broker.sends else None
    ended = program(SEND_AND_END, broker.uri, "20")
    assert "no room" in ended.stderr


FORK = """
    import os, sys
    from holdfast.client import blocking

    connection = blocking.connect(sys.argv[1])
    producer = connection.producer("/queue/a", window=2)
    subscription = connection.subscribe("/queue/b").__enter__()
    message = subscription.receive()
    unconfirmed = producer.send("1")
    child = os.fork()
    if child == 0:
        for call in (
            lambda: connection.send("/queue/a", "x"),
            lambda: producer.send("x"),
            producer.flush,
            lambda: connection.producer("/queue/a"),
            lambda: subscription.receive(1),
            message.acknowledge,
            lambda: message.acknowledge(confirm=True),
            connection.close,
        ):
            try:
                call()
            except BaseException as error:
                print(type(error).__name__, error)
        connection.close(is_graceful=False)
        sys.exit(7)  # With everything that the end of a program brings.
    _, status = os.waitpid(child, 0)
    producer.send("2")
    unconfirmed.result()
    connection.close()
    print("child", os.waitstatus_to_exitcode(status))
"""


def test_a_forked_child_is_told_and_its_parent_goes_on(threaded: Threaded) -> None:
    """
    The child has neither the thread nor a link of its own: every call is an error that says so,
    none hangs, and nothing of it reaches the parent's link.
    """
    broker = threaded.broker
    broker.store.put("/queue/b", {"persistent": "true"}, b"in")
    # By name: looking it up must leave nothing behind that a child dies of when it exits.
    ended = program(FORK, broker.uri.replace("127.0.0.1", "localhost"))
    lines = ended.stdout.splitlines()
    assert lines[-1:] == ["child 7"], ended.stderr
    assert [line.split()[0] for line in lines[:-1]] == ["MisplacedCallError"] * 8
    assert broker.store.bodies(QUEUE) == [b"1", b"2"]
    assert broker.store.settled == []
