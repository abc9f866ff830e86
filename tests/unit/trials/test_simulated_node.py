"""A simulated process ends as a real one does."""

from __future__ import annotations

from holdfast.errors import FencedError
from trials.simulation.simulator import Simulation


def test_who_is_shut_out_in_a_turn_ends_when_the_turn_is_over() -> None:
    """
    The real loop goes on as well: what it removes or writes until then is no dead process's work.
    """
    world = Simulation(1)
    node = world.nodes[0]
    node.start()
    seen = []

    def turn() -> None:
        node.driver._fence.shut_out("no member any more")
        seen.append(node.is_alive)
        node.journal.ballot_file.announce_large(1, 0, b"")

    world.checkers.retired.add(node.driver.hello.node_id)
    node.take_turn(turn)

    assert [True] == seen
    assert (False, FencedError.__name__) == (node.is_alive, node.ended_by)
