"""
The deterministic simulator: a short run of it, seeds that once failed, and what it is built on.

`make simulate COUNT=...` runs as many seeds as one likes; here are enough to notice that something
broke. A seed that fails is repeated by `make simulate SEED=...`.
"""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from trials.ablations import ABLATIONS
from trials.safeguards.ablation import catch
from trials.simulation.checkers import BEGUN_TWICE
from trials.simulation.damage import CHECKPOINT
from trials.simulation.endings import ENDINGS
from trials.simulation.faults import (
    DESTRUCTIVE,
    LAST,
    OPERATORS,
    SAFE,
    TOPOLOGIES,
    UNDETECTED,
    Nemesis,
    focused,
    plan,
)
from trials.simulation.generations import LAGGED
from trials.simulation.greedy_clients import QUEUES
from trials.simulation.simulated_clock import SimulatedClock, Timeline
from trials.simulation.simulator import simulate
from trials.simulation.workload import RENEWED
from trials.troubles import DRAWN
from trials.troubles.clocks import WEEKS
from trials.troubles.long_sleeps import SLEEP

SEEDS = int(os.environ.get("HOLDFAST_SEEDS", "10"))
FIRST_SEED = int(os.environ.get("SEED", "1"))
BLOCK = 10

POWER = ("power cut in a write", "power cut everywhere", "power cut", "partition", "heal network")
PAUSED = ("leader cut off, then paused",)
SYNC = ("power cut", "power cut in a write", "partition", "heal network", "fsync EIO")
DAMAGE = ("misdirected write", "crash", "one-way cut", "heal network")
MEMBERS = ("wiped disk", "add member", "transfer", "crash")
STRANGERS = ("wiped disk", "add member", "remove member", "promote learner", *POWER[3:], "crash")
ROT = ("bit flip", "unreadable sector", "misdirected write", "crash", "power cut")
OLDER = ("disk rolled back", "crash", "partition", "heal network")
HELIX = ("helix damage", "crash", "partition", "heal network")
SITES = ("transfer", "site lost", "crash", "helix damage", "bit flip")
FORCED = (LAGGED, "power cut in a write", "slow disk", "crash")
FAILING = ("fsync EIO", "write EIO")
CUT = ("cut tail", "crash", "partition", "heal network")
FOUND = [
    (1, "three", PAUSED, "a deposed leader applied its own batch for another leader's entry"),
    (5, "three", PAUSED, "the same"),
    (9, "three", PAUSED, "the same"),
    (8, "three", SYNC, "a ballot that only the cache had was believed after a restart"),
    (13, "three", SYNC, "the same"),
    (18, "three", OLDER, "an older copy of a disk was believed: a leader lacked what is committed"),
    (54, "three", OLDER, "the same"),
    (76, "three", OLDER, "the same"),
    (20, "five", HELIX, "who lost the entry that names the members asked nobody for it"),
    (4, "three", CUT, "a log that had to be cut behind a lost header ended its node"),
    (10, "three", CUT, "a copy of what is missing behind the log's end ended its node"),
    (33, "three", ("cut tail", "power cut", "transfer"), "no term without a readable header"),
    (62, "five", SITES, "a witness let who had rot drop what others held"),
    (9, "three", FORCED, "a simulated operator emptied a copy without which nobody could lead"),
    (19, "two", FORCED, "who was emptied by it was not told whom to join, and founded a cluster"),
    (7, "two", (QUEUES, LAGGED, "crash"), "who was to join a copy was not told of it, and founded"),
    (20, "three", FAILING, "voters that met a failing disk were taken for terms without need"),
    (32, "three", FAILING, "the same"),
    (318, "three", LAST[:1], "an end that may be damaged was told of nowhere"),
]
"""Seeds and trouble that fail without the mend of a mistake that was found once, and which."""
AS_DRAWN = [
    (930005, "a new voter whose log ended before it was named never voted"),
    (6200779, "a producer that sent all again at each refusal made work faster than it is done"),
    (50001276, "a simulated mover left a message that its forgotten producer had stored twice"),
    (50005108, "files of a kept log could not be moved when it was taken back"),
    (70000032, "a segment went that a leader just restarted had begun to clean again"),
    (
        50003807,
        "entries of a probe were sent again with each heartbeat, faster than a link took them",
    ),
    (51300200, "who came closer by one entry at a time was said not to catch up"),
    (70000204, "500 messages went one entry at a time, and were given twenty seconds"),
    (70000773, "the same"),
    (90001194, "a reply that waited for a ballot claimed what was found damaged meanwhile"),
    (93001543, "a simulated disk was still slow when it had to be enough"),
    (94003381, "a mark between a transaction and its number was taken for its end"),
    (94006063, "a disk hung for good while its node still took it for full"),
    (94008838, "a mover gave the two of a message that was stored twice one name"),
    (95400173, "a link that had stalled thirty times was given no time to bring what was on it"),
    (96008761, "two that an operator had emptied were not told of the member that went on"),
    (96010043, "a stranger settled what was on its way to it when its link broke"),
    (96018031, "an operator did not bring back the node that an unknown end waited for"),
    (96021133, "who was shut out and started again was judged by the number that it was told"),
    (96030360, "a simulated link held back what must be elsewhere when a disk hangs"),
    (96032207, "who was shut out by a removal and by a promotion was known by the former only"),
    (96033109, "who lost power between being told and ending was not known to be shut out"),
    (96036298, "a simulated disk hung while whom it needs lacked two hundred entries"),
    (96037284, "one that was started again after it was shut out dialed once only"),
    (96089957, "a confirm of the first messages of a long entry came before all of it was applied"),
    (96101022, "the power failed as a leader's entries took the place of what was lost"),
    (96101697, "a promotion was given up of which somebody was just being told"),
    (96173139, "the only disk left had an entry rotten in what was not sealed, and nobody knew"),
    (96155854, "an only voter of a former generation served before it heard of the next one"),
    (96099517, "a promoted learner had what its leader lost, under an id that was given again"),
    (96210025, "the second promotion that an operator asked for was given up half way"),
    (96208912, "the end of a kept log was judged by what was known once the new one was whole"),
]
"""
The same, with all that the seed draws. A seed stands here while more than half of the misfortunes
of its world are those of the day on which it failed; later it is a world like any other, of which
`make simulate` lives through as many as one likes.
"""
TROUBLE = [
    ("three", POWER, "a log begun anew and still empty did not open after a power cut"),
    ("witness", DAMAGE, "damage that all others had reclaimed stopped a replica for good"),
    ("learner", STRANGERS, "a member that was away refused a newer leader's link"),
    ("three", ("disk full", "misdirected write"), "a checkpoint met a damaged entry"),
    ("three", ROT, "damage beside damage ended the leader; so did headers lost at the beginning"),
    ("witness", MEMBERS, "a wiped node could not be reached by a leader it was not told of"),
    ("three", ("bit flip", "add member"), "an answer about reclaimed damage ended its node"),
    ("three", OLDER, "a node on an older copy of its disk voted twice in one term"),
    ("witness", ("wiped disk", "partition", "heal network"), "lost news, doubt for ever"),
]
"""Trouble in which a mistake was found once, by a seed that means another day by now."""


@pytest.mark.slow
@pytest.mark.parametrize("first", range(FIRST_SEED, FIRST_SEED + SEEDS, BLOCK))
def test_every_promise_is_kept(first: int) -> None:
    """Ten worlds full of trouble: nothing is lost, doubled in silence, or stuck."""
    results = [simulate(seed) for seed in range(first, first + min(BLOCK, SEEDS))]

    broken = [f"make simulate SEED={it.seed}: {it.violation}" for it in results if it.violation]
    assert not broken, "\n".join(broken)
    assert sum(result.confirms for result in results) > 100


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "topology", "kinds", "what"), FOUND)
def test_what_was_found_once_is_mended(
    seed: int, topology: str, kinds: tuple[str, ...], what: str
) -> None:
    """Trouble that found a mistake finds it no more."""
    assert not simulate(seed, focused(seed, kinds, topology=topology)).violation, what


@pytest.mark.slow
@pytest.mark.parametrize(("seed", "what"), AS_DRAWN)
def test_a_seed_that_failed_once_is_lived_through(seed: int, what: str) -> None:
    """With everything that it draws."""
    assert not simulate(seed).violation, what


@pytest.mark.slow
@pytest.mark.parametrize(("topology", "kinds", "what"), TROUBLE)
def test_trouble_that_found_a_mistake_once_is_survived(
    topology: str, kinds: tuple[str, ...], what: str
) -> None:
    """A few days of each such trouble."""
    for seed in (1, 2):
        assert not simulate(seed, focused(seed, kinds, topology=topology)).violation, what


@pytest.mark.slow
def test_a_leader_whose_disk_hangs_stops_nobody() -> None:
    """Confirms go on before it is even known to hang, and all is delivered while it does."""
    happened = 0
    for seed in range(10, 16):
        result = simulate(seed, focused(seed, ("disk hangs for good",)))

        assert not result.violation
        happened += result.faults["disk hangs for good"]
    assert happened > 6


@pytest.mark.slow
def test_producers_that_are_forgotten_go_on() -> None:
    """A week that passes at once makes the log forget who is sending: they send all the same."""
    results = [simulate(seed, focused(seed, (WEEKS,))) for seed in (5, 12, 30)]

    assert not [result.violation for result in results if result.violation]
    assert sum(result.acts[RENEWED] for result in results) > 0


@pytest.mark.slow
def test_a_flipped_checkpoint_costs_time_only() -> None:
    """It waits until there is one, else hardly any seed would have it; all is kept all the same."""
    happened = 0
    for seed in range(1, 41):
        result = simulate(seed, focused(seed, (CHECKPOINT, "crash")))

        assert not result.violation, f"seed {seed}"
        happened += result.faults[CHECKPOINT] > 0
        if happened == 3:
            break
    assert happened == 3


@pytest.mark.slow
def test_a_node_that_slept_is_told_to_begin_anew_more_than_once() -> None:
    """Several times in one turn, before its writer has begun; it follows all the same."""
    results = [simulate(seed, focused(seed, (SLEEP,))) for seed in range(7, 13)]

    assert not [result.violation for result in results if result.violation]
    assert sum(result.faults[SLEEP] for result in results) > 5
    assert sum(result.faults[BEGUN_TWICE] for result in results) > 2


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["followers' links reset", "one-sided reset", "restart beside a reset"]
)
def test_a_link_closed_for_one_side_lets_nobody_dispatch_beside_a_lease(kind: str) -> None:
    """The new leader confirms at once, and dispatches when the old one may no more."""
    results = [simulate(seed, focused(seed, (kind,))) for seed in range(1, 5)]

    assert not [result.violation for result in results if result.violation]
    assert sum(result.faults[kind] for result in results) > 10


@pytest.mark.slow
@pytest.mark.parametrize("ending", LAST)
def test_what_no_promise_covers_stops_the_cluster(ending: str) -> None:
    """Nobody leads past what is lost everywhere, and somebody says so."""
    for seed in range(1, 6):
        result = simulate(seed, focused(seed, (ending,)))

        assert not result.violation
        assert result.faults[ending] == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["acknowledge before the sync", "reply before the commit", "no dispatch mark"]
)
def test_a_missing_safeguard_is_noticed(name: str) -> None:
    """The simulator is not blind: make ablations tries all of them."""
    (ablation,) = [it for it in ABLATIONS if it.name == name]

    assert catch(ablation, range(1, 20))


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run() -> None:
    """Byte for byte: in this process twice, and in another whose hashes differ."""
    first = simulate(25, is_watched=True)
    program = (
        "from trials.simulation.simulator import simulate;"
        "import sys; sys.stdout.write(simulate(25, is_watched=True).digest)"
    )
    elsewhere = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "4711"},
        capture_output=True,
        text=True,
        check=True,
    )

    assert len(first.transcript) > 10
    assert simulate(25, is_watched=True).digest == first.digest
    assert elsewhere.stdout == first.digest


def test_plans_cover_every_kind_and_every_topology() -> None:
    """Among some hundred seeds there is every topology and every kind of misfortune."""
    plans = [plan(seed) for seed in range(1200)]

    assert {it.topology for it in plans} == set(TOPOLOGIES)
    assert {kind for it in plans for kind in it.kinds} == {*SAFE, *DESTRUCTIVE, *OPERATORS, *DRAWN}
    assert {it.ending for it in plans} == {"", *LAST} == {"", *ENDINGS}
    assert set(Nemesis._ACTIONS) == {*SAFE, *DESTRUCTIVE, *OPERATORS, *UNDETECTED}


def test_events_run_in_the_order_of_their_time() -> None:
    """Earlier ones first; those of one time in the order they were planned."""
    timeline = Timeline()
    seen: list[str] = []
    for seconds, name in ((2.0, "late"), (1.0, "one"), (1.0, "two")):
        timeline.after(seconds, seen.append, name)

    timeline.run(3.0)

    assert seen == ["one", "two", "late"]
    assert timeline.now == 3.0


def test_a_skewed_clock_does_not_go_back() -> None:
    """A new rate counts from now on."""
    timeline = Timeline()
    clock = SimulatedClock(timeline, start=100.0)
    timeline.run(10.0)
    clock.run_at(1.1)
    timeline.run(10.0)
    clock.run_at(0.9)

    assert clock.monotonic() == pytest.approx(121.0)
