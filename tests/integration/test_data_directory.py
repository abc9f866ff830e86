"""
The data directory is the whole of a broker: it can be moved, and one process has it at a time.
"""

from __future__ import annotations

import pytest

from holdfast.testing.local_cluster import LocalNode
from trials.clients.load import Load, LoadSettings

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def test_everything_is_there_after_the_directory_was_moved(start_cluster, tmp_path):
    """
    Move the directory to another path, start there: every confirmed message is served.
    """
    node = start_cluster("single").leader()
    with Load([f"127.0.0.1:{node.stomp_port}"], LoadSettings(consumers=0)) as load:
        load.wait_confirmed(1500)
        load.finish()
    node.kill()
    moved = LocalNode("a", tmp_path / "elsewhere", node.arguments)
    moved.directory.mkdir()
    node.data.rename(moved.data)
    moved.start()
    try:
        moved.wait_until(lambda status: status["serving"], "serving")
        drain = Load([f"127.0.0.1:{moved.stomp_port}"], LoadSettings(producers=0))
        drain.ledger = load.ledger
        with drain:
            account = drain.finish()
    finally:
        moved.kill()

    assert (account.lost, account.reordered, account.corrupt) == (0, 0, 0)
    assert account.delivered >= 1500


def test_a_second_process_on_the_same_directory_is_refused(start_cluster):
    """
    Two processes on one directory would destroy it: the second one ends at once and says why; the
    first one is not disturbed.
    """
    node = start_cluster("single").leader()
    second = LocalNode("a", node.directory, node.arguments)
    second.log_path = node.directory / "second.log"
    second.start()
    code = second.wait()

    assert code == 1
    assert str(node.data) in second.log_path.read_text()
    assert node.status()["serving"]
