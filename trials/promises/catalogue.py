"""
The faults F1 to F41 and what Holdfast, as it is today, promises for each.

A row says what is injected, what is promised, and which simulated scenarios inject it. Chaos
scenarios name their faults themselves, tests carry the marker `promise`: neither is repeated here.
What Holdfast does not have is `absent`, with the reason; what a row does not cover is a `limit`.

Invariant: every fault from F1 to F41 has exactly one row.
"""

from __future__ import annotations

from dataclasses import dataclass

from trials.promises.simulations import SCENARIOS


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """One row: a fault and what it may cost."""

    fault: str
    injected: str
    promised: str
    simulations: tuple[str, ...] = ()
    """Names of simulated scenarios that inject it."""
    limit: str = ""
    """What is not promised, or not shown."""
    may_lose: bool = False
    """It costs what was confirmed, whatever is done: runs do not count it."""
    absent: str = ""
    """Why it does not apply; empty if it does."""
    failover: str = ""
    """How the leader is lost in the measurement of failover times that belongs to it."""

    def __post_init__(self) -> None:
        unknown = set(self.simulations) - set(SCENARIOS)
        assert not unknown, f"{self.fault} names scenarios that are not there: {unknown}"

    @property
    def number(self) -> int:
        """Where it stands in the table."""
        return int(self.fault[1:])


_PROMISES = [
    Promise(
        fault="F1",
        injected="The leader's process is killed under load.",
        promised="Another node serves; aim: at most 2 s without confirms at p99. Nothing confirmed"
        " is lost; what is delivered again says so.",
        simulations=("processes killed",),
        failover="killed",
    ),
    Promise(
        fault="F2",
        injected="A follower's process is killed under load.",
        promised="Confirms go on from the others; no client is cut off; it catches up later.",
        simulations=("processes killed",),
    ),
    Promise(
        fault="F3",
        injected="All processes are killed at once and started again.",
        promised="Nothing confirmed is lost; served again as soon as a majority is up.",
        simulations=("all processes killed",),
    ),
    Promise(
        fault="F4",
        injected="The leader loses power: what was not synced is gone, sectors may be torn.",
        promised="Nothing confirmed is lost. A machine that is gone is only silent, so the others"
        " wait for the election timeout first; aim: at most 3 s without confirms at p99.",
        simulations=("power cuts",),
        failover="silent",
        limit="Chaos cuts the power of a process, whose connections close at once: its times are"
        " those of F1. The failover times of a silent leader are those of a machine.",
    ),
    Promise(
        fault="F5",
        injected="All nodes lose power at once, in the middle of writing.",
        promised="A torn end is cut and kept aside; nothing confirmed is lost.",
        simulations=("power cuts everywhere",),
    ),
    Promise(
        fault="F6",
        injected="One node loses power while those who know more are paused, so that it is in the"
        " first quorum.",
        promised="No rollback: what was confirmed is on its disk.",
        simulations=("a forgetful node in the first quorum", "power cuts"),
    ),
    Promise(
        fault="F7",
        injected="The leader is stopped (SIGSTOP) until another one leads, then goes on.",
        promised="It gives its clients nothing more, confirms nothing, and follows.",
        simulations=("processes paused",),
    ),
    Promise(
        fault="F8",
        injected="The leader stalls for 0.5 s (a long turn, a busy machine).",
        promised="No election at default timings; confirms come later by the stall.",
        simulations=("short stalls of the leader",),
    ),
    Promise(
        fault="F9",
        injected="A partition cuts the leader off from both others.",
        promised="It stops serving within the election timeout; the majority elects and serves.",
        simulations=("leader cut off", "partitions"),
    ),
    Promise(
        fault="F10",
        injected="A link carries nothing in one direction, to or from the leader.",
        promised="The leader stays or is replaced; terms do not grow without need.",
        simulations=("one-way cuts",),
    ),
    Promise(
        fault="F11",
        injected="Five nodes, some pairs of which cannot reach each other.",
        promised="A leader that reaches a majority serves; safe meanwhile.",
        simulations=("partial partitions of five",),
    ),
    Promise(
        fault="F12",
        injected="Five nodes in a ring of links that changes several times a second.",
        promised="Safe; progress when it is quiet.",
        simulations=("a ring of five that flaps",),
    ),
    Promise(
        fault="F13",
        injected="Links lose, double, delay and reorder; some messages come 30 s late.",
        promised="Slower; no entry that both sides have is ever cut.",
        simulations=("bad links",),
    ),
    Promise(
        fault="F14",
        injected="A node's clock jumps by up to an hour, or runs too fast or too slow.",
        promised="Nothing that is stored depends on it; timestamps in the log only rise; at most"
        " deliveries that say they are repeated.",
        simulations=("clocks",),
        limit="Holdfast does not expire messages, so there is no time to live that a clock could"
        " cut short. The simulator's clocks run up to 10 % too fast or too slow; chaos moves"
        " wall clocks only.",
    ),
    Promise(
        fault="F15",
        injected="A write or sync of the log fails once (EIO) on the leader or a follower.",
        promised="It is never tried again: the process ends, nothing more is claimed, and another"
        " node leads. One of a checkpoint costs only that checkpoint.",
        simulations=("failing disks",),
    ),
    Promise(
        fault="F16",
        injected="One disk says that it synced and forgets.",
        promised="What is missing is found by its neighbours, its floor or its chain, and fetched"
        " from a peer.",
        simulations=("a lying disk",),
        limit="One lying disk of three. A cluster whose disks all lie has no promise.",
    ),
    Promise(
        fault="F17",
        injected="A disk is nearly full, then full.",
        promised="Publishing is refused while space is low, before a write fails;"
        " acknowledgements go on; nothing is lost.",
        simulations=("full disks",),
    ),
    Promise(
        fault="F18",
        injected="A bit flips in a sealed segment of one node.",
        promised="Found when it is read or scrubbed, fetched from a peer; never served, never cut.",
        simulations=("rot in segments", "misdirected writes"),
    ),
    Promise(
        fault="F19",
        injected="A bit flips in an entry's header, the last entry, a checkpoint or the ballot of"
        " one node.",
        promised="A header's place is known from its neighbours; a doubtful end counts as held"
        " until a peer decides; an older checkpoint is used; with both ballots lost"
        " the node comes back under a new identity.",
        simulations=("rot in the ballot, the last entry and checkpoints",),
    ),
    Promise(
        fault="F20",
        injected="Every node has rot, each in another place.",
        promised="Every entry is fetched from a node that has it whole.",
        simulations=("different rot on every node",),
    ),
    Promise(
        fault="F21",
        injected="The same entry is spoilt on every node.",
        promised="Every node tells the place. A cluster elects nobody past it and waits for the"
        " operator; a single node withholds what is spoilt and serves the rest. Nothing is cut"
        " or made up.",
        simulations=("the same rot on every node",),
        may_lose=True,
        limit="A loss that no broker can undo.",
    ),
    Promise(
        fault="F22",
        injected="The end of one node's log is cut off, below what it had noted as durable.",
        promised="Known as missing, not as an end; fetched again from a peer.",
        simulations=("a log cut short",),
    ),
    Promise(
        fault="F23",
        injected="One node's disk, ballot and all, is replaced by an older copy of itself.",
        promised="It is told so by whoever knows more of it, and ends: it may not vote or count for"
        " what it forgot. Emptied, it comes back under a new identity.",
        simulations=("a disk rolled back",),
        limit="Not if all who could know better are gone or were cut off since the copy was made,"
        " and not for a single node: see [decision 0007]"
        "(../decisions/0007-editions-of-the-ballot.md).",
    ),
    Promise(
        fault="F24",
        injected="One node's disk is emptied; it starts with the same settings.",
        promised="It never votes under its old identity: it learns the log under a new one, then"
        " votes.",
        simulations=("a wiped disk",),
    ),
    Promise(
        fault="F25",
        injected="Two disks of three are emptied.",
        promised="Nothing is served until an operator forces the survivor to go on alone; what it"
        " has is kept, and the old identities are shut out for good.",
        simulations=("two disks of three wiped",),
        may_lose=True,
        limit="What only the two lost disks had is gone: with two copies of three, confirmed"
        " messages may be among it. The forced promotion does not print which.",
    ),
    Promise(
        fault="F26",
        injected="Members are added, removed and promoted during F1 to F13.",
        promised="One change at a time, each decided by majorities that overlap.",
        simulations=("members change in trouble", "a learner becomes a voter in trouble"),
    ),
    Promise(
        fault="F27",
        injected="One disk is a hundred times slower.",
        promised="A slow follower is not noticed. A slow leader confirms as soon as two others"
        " have stored; nothing is lost.",
        simulations=("slow disks",),
        limit="A leader whose disk hangs hands over by itself; one whose disk is only slow does"
        " not: `holdfast cluster transfer` does it.",
    ),
    Promise(
        fault="F28",
        injected="A follower falls far behind under load.",
        promised="The leader's memory for it is bounded; confirms go on; it catches up, from the"
        " oldest kept entry if its place is gone.",
        simulations=("a follower far behind",),
        limit="Ten minutes at full load are not part of this table's runs.",
    ),
    Promise(
        fault="F29",
        injected="A node dies while a segment is begun, a checkpoint written, or dead log dropped.",
        promised="The state before or after, never a mixture.",
        simulations=("killed in the middle of rolling, checkpointing and cleaning",),
    ),
    Promise(
        fault="F30",
        injected="A producer loses its connection before the confirms, and sends again elsewhere.",
        promised="With producer numbers each message is stored once and in order; without them"
        " it may be stored twice.",
        simulations=("clients cut off", "processes killed"),
    ),
    Promise(
        fault="F31",
        injected="A consumer dies with unacknowledged messages while the leader dies.",
        promised="All of them come again to other consumers, in order, and say so.",
        simulations=("consumers and leaders die",),
    ),
    Promise(
        fault="F32",
        injected="The leader dies between a COMMIT and its confirm.",
        promised="The whole transaction or nothing of it; a retry with the same number is stored"
        " once.",
        simulations=("processes killed", "clients cut off"),
    ),
    Promise(
        fault="F33",
        injected="XA: prepared transactions and a restart of all nodes.",
        promised="",
        absent="STOMP has no XA, and Holdfast speaks STOMP only.",
    ),
    Promise(
        fault="F34",
        injected="A client that saw a newer leader talks to one that was deposed.",
        promised="It is told no success: the old leader hangs up, and the client library refuses"
        " a broker of an older term.",
        simulations=("processes paused", "leader cut off"),
        limit="A STOMP client that does not look at `holdfast-term` is protected by the old"
        " leader's lease and closed port only.",
    ),
    Promise(
        fault="F35",
        injected="Two nodes and a witness: any one fails; then the other one's disk dies.",
        promised="Publishing goes on after the first; the witness has what was confirmed since"
        " and feeds it to the one that comes back.",
        simulations=("two and a witness", "two and a witness, then a disk"),
    ),
    Promise(
        fault="F36",
        injected="2 + 2 + 1 over three sites: a site is lost, or the witness and one node.",
        promised="Service goes on in both cases with `sites` at 1.",
        simulations=("a site lost", "the witness' site and a machine lost"),
    ),
    Promise(
        fault="F37",
        injected="A mirror in another region is cut off for an hour, then the main site is lost.",
        promised="",
        absent="Holdfast does not mirror between clusters. Its nearest relatives, a learner far"
        " away and the archive, are in [Recover a lost site](../how-to/recover-a-lost-site.md);"
        " `make demo-dr` measures what each lacks.",
    ),
    Promise(
        fault="F38",
        injected="A rolling upgrade, node by node under load, to a newer level of the log's format,"
        " and back; then an old node is started again.",
        promised="Nothing is lost, and the logs are the same bytes. Until all members know the new"
        " level any of them may be taken back; then an old one ends with a sentence.",
        simulations=("a rolling upgrade, and back",),
        limit="Between two levels of one version: the old one is held back by its environment.",
    ),
    Promise(
        fault="F39",
        injected="A queue is deleted and made again under its name while a member is away.",
        promised="The two are different queues: an acknowledgement for a message of the old one"
        " settles nothing in the new one.",
    ),
    Promise(
        fault="F40",
        injected="A message is delivered again by twenty failovers and never rejected.",
        promised="Failovers alone never bring it to the dead-letter queue.",
        simulations=("thirty seconds of dying leaders, nobody rejects",),
    ),
    Promise(
        fault="F41",
        injected="One old message is never acknowledged while others come and go.",
        promised="It does not hold the log: disk use follows what is live.",
        simulations=("processes killed",),
        limit="Seconds, not a day, and megabytes, not ten million messages.",
    ),
]
PROMISES = {promise.fault: promise for promise in _PROMISES}
assert list(PROMISES) == [f"F{number}" for number in range(1, 42)], "every fault has its row"
