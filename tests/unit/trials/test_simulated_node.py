"""A simulated process ends as a real one does."""

from __future__ import annotations

from holdfast.errors import FencedError
from trials.simulation.faults import Nemesis, focused
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


def test_who_lost_power_knows_its_logs_end_only_when_it_has_read_it() -> None:
    """What the power cut left is an end that nobody knows, until a process has read it."""
    world = Simulation(1)
    node = world.nodes[0]
    node.start()
    seen = [node.knows_its_end]

    node.stop(power=True)
    seen.append(node.knows_its_end)
    node.start()
    seen.append(node.knows_its_end)

    assert [True, False, True] == seen


def test_no_disk_is_emptied_while_another_machine_may_have_lost_its_end() -> None:
    """The two together would be one fault more than is promised."""
    world = Simulation(1, focused(1, ("wiped disk",)))
    for node in world.nodes:
        node.start()
    other = next(node for node in world.nodes if node.name != world.plan.victim)
    wipe = Nemesis._ACTIONS["wiped disk"]

    other.stop(power=True)
    was_spared = not wipe(world.nemesis)
    other.start()

    assert (True, True) == (was_spared, wipe(world.nemesis))
