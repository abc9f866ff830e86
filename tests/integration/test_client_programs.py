"""
The client as a program uses it, against a real broker: programs that end, outages that last.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap

import pytest

from holdfast.client import blocking
from holdfast.errors import LocalProtocolError

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PROGRAM = """
    import sys
    from holdfast.client import blocking

    connection = blocking.connect(sys.argv[1])
    for number in range(500):
        connection.producer("/queue/a", window=500).send(str(number))
"""


def test_a_program_that_just_ends_has_stored_what_it_sent(start_cluster):
    """Its 500 messages are on the queue, though it called neither flush nor close."""
    node = start_cluster("single").leader()
    uri = f"stomp://127.0.0.1:{node.stomp_port}"
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), uri],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    with (
        blocking.connect(uri) as connection,
        connection.subscribe("/queue/a", prefetch=1000) as subscription,
    ):
        bodies = {subscription.receive(20).text for _ in range(500)}
    assert bodies == {str(number) for number in range(500)}


def test_a_body_that_cannot_be_sent_costs_no_other_message(start_cluster):
    """What stands before and behind it is stored; the call itself was refused."""
    node = start_cluster("single").leader()
    with blocking.connect(f"stomp://127.0.0.1:{node.stomp_port}") as connection:
        with connection.producer("/queue/a") as producer:
            producer.send("1")
            with pytest.raises(LocalProtocolError, match="int"):
                producer.send(5)
            with pytest.raises(LocalProtocolError, match="UTF-8"):
                producer.send("espr\udce9sso")
            producer.send("2")
        with connection.subscribe("/queue/a") as subscription:
            assert [subscription.receive(20).text for _ in range(2)] == ["1", "2"]
            assert subscription.receive(0) is None


def test_one_interrupt_ends_receiving_in_an_outage(start_cluster):
    """The broker is dead and another one never comes: the first Ctrl-C ends `receive --follow`."""
    node = start_cluster("single").leader()
    uri = f"failover:(stomp://127.0.0.1:{node.stomp_port})"
    with blocking.connect(uri) as connection:
        connection.send("/queue/a", "espresso")
    receiving = subprocess.Popen(
        [
            *(sys.executable, "-m", "holdfast", "receive", "/queue/a"),
            *("--follow", "--acknowledge", "none", "--uri", uri),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with receiving:
        assert receiving.stdout.readline() == "espresso\n"
        node.kill()
        while "interrupted" not in receiving.stderr.readline():
            assert receiving.poll() is None
        receiving.send_signal(signal.SIGINT)
        try:
            assert receiving.wait(20) == 130
        finally:
            receiving.kill()
