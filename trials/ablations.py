"""
One safeguard switched off at a time: the simulator must notice, or it proves nothing.

An ablation replaces a function of the product while a world runs; the product itself has no switch.
Where a safeguard only matters in rare trouble, the plan of the seeds is bent towards that trouble.
The runner prints for each ablation the first seed that catches it, and by which invariant.

    python -m trials.ablations
"""

# ruff: noqa: SLF001 - an ablation replaces what is inside; that is what it is for

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console

from holdfast.broker.receipts import Receipts
from holdfast.broker.serving import queue
from holdfast.journal import opening
from holdfast.journal.ballot import BallotFile
from holdfast.journal.entry import Entry
from holdfast.journal.housekeeper import Housekeeper
from holdfast.journal.journal import Journal
from holdfast.journal.scanner import LogScanner
from holdfast.journal.writer import JournalWriter
from holdfast.model.records import FormatRecord, ProducerRecord, QueueRecord
from holdfast.replication import (
    candidate,
    consensus,
    driver,
    editions,
    follower,
    leader,
    outgoing,
    reconfiguration,
    voting,
)
from holdfast.replication.driver_view import DriverView
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.messages import AppendResponse
from holdfast.replication.settings import ReplicationSettings
from holdfast.replication.state import Role, State
from holdfast.server import cleaning
from holdfast.server.loop import Conductor
from holdfast.store.replicated_store import ReplicatedStore
from trials.safeguards import ABLATIONS as ABLATIONS_BY_TOPIC
from trials.safeguards.ablation import Ablation, Patch, catch
from trials.simulation.faults import Plan
from trials.simulation.simulated_node import SeededRandomness

SEEDS_MAX = 300
_COVERED_SEEDS = 20
"""Tried on ablations that another safeguard covers."""

# What is done instead -----------------------------------------------------------------------------


def _claim_what_is_staged() -> list[Patch]:
    return [(follower, "durable_match", lambda state: state.matched_index)]


def _send_before_the_ballot() -> list[Patch]:
    send = outgoing.Outgoing.send

    def send_at_once(self: Any) -> None:
        ballot = self._ballot
        job, ballot.job = ballot.job, None
        send(self)
        ballot.job = job

    return [(outgoing.Outgoing, "send", send_at_once)]


def _count_old_terms() -> list[Patch]:
    def advance_commit(state: State) -> None:
        state.commit_index = max(state.commit_index, leader.committable(state))

    return [(leader, "advance_commit", advance_commit)]


def _stand_without_asking() -> list[Patch]:
    def stand(state: State) -> None:
        state.leader = None
        if candidate.may_stand(state):
            candidate.start_election(state, is_transfer=False)
        else:
            state.await_leader()

    return [(candidate, "stand", stand)]


def _truncate_corruption() -> list[Patch]:
    def is_tail(self: Any, bad: Any, data: bytes, offset: int, end: int) -> bool:
        tail = self._scan.tail
        tail.state, tail.start, tail.end, tail.reason = "torn", offset, end, bad.reason
        return True

    def no_floor(_self: Any) -> None:
        found = _self._scan
        if _self._chain is not None:
            found.last_chain = _self._chain
        if _self._record is not None:
            found.next_record = _self._record

    return [(LogScanner, "_is_tail", is_tail), (LogScanner, "finish", no_floor)]


def _retry_the_sync() -> list[Patch]:
    write = JournalWriter._write

    def write_again(self: Any, run: Any, complete: Any) -> None:
        try:
            write(self, run, complete)
        except OSError:
            self._end.file.sync()
            self._journal.tail.durable_index = run.last_index
            for job in complete:
                job.is_done = True

    return [(JournalWriter, "_write", write_again)]


def _keep_the_identity() -> list[Patch]:
    known: dict[int, bytes] = {}
    draw = SeededRandomness.bytes

    def draw_once(self: Any, count: int) -> bytes:
        if count != 16:
            return draw(self, count)
        return known.setdefault(id(self._random), draw(self, count))

    return [(SeededRandomness, "bytes", draw_once)]


def _believe_any_clock() -> list[Patch]:
    reply, newest = follower.reply, dict[str, float]()

    def reply_what_was_newest(state: State) -> None:
        told = max(newest.get(state.node_id, 0.0), state.leader_sent_at)
        newest[state.node_id] = state.leader_sent_at = told
        reply(state)

    def on_append_response(state: State, peer: str, message: AppendResponse) -> None:
        progress = state.progress.get(peer)
        if progress is not None and message.term == state.term:
            progress.contact_at = max(progress.contact_at, message.sent_at)
            leader.count_lease(state)
        leader.on_append_response(state, peer, message)

    table = {**consensus._STEPS, AppendResponse: on_append_response}
    return [(follower, "reply", reply_what_was_newest), (consensus, "_STEPS", table)]


def _lease_for_long() -> list[Patch]:
    def quorum_for_ever(state: State) -> None:
        return None

    seconds = property(lambda self: 4 * self.election_seconds_min)
    return [
        (ReplicationSettings, "lease_seconds", seconds),
        (leader, "check_quorum", quorum_for_ever),
    ]


def _forget_producers() -> list[Patch]:
    homeless = cleaning.__dict__["homeless"]

    def without_producers(*arguments: Any) -> Iterator[list[Any]]:
        for piece in homeless(*arguments):
            yield [record for record in piece if type(record) is not ProducerRecord]

    return [(cleaning, "homeless", without_producers)]


def _forget_queues() -> list[Patch]:
    return _forget_records(QueueRecord)


def _forget_the_level() -> list[Patch]:
    return _forget_records(FormatRecord)


def _forget_records(kind: type) -> list[Patch]:
    homeless = cleaning.__dict__["homeless"]

    def without_some(*arguments: Any) -> Iterator[list[Any]]:
        for piece in homeless(*arguments):
            yield [record for record in piece if type(record) is not kind]

    return [(cleaning, "homeless", without_some)]


def _forget_the_living() -> list[Patch]:
    return [(cleaning, "live_copies", lambda *_arguments: ())]


def _drop_at_once() -> list[Patch]:
    finish = cleaning.Cleaner._finish

    def finish_and_drop(self: Any, is_spent: Any) -> None:
        finish(self, is_spent)
        self.store.journal.drop_before(self.through_index + 1)

    return [(cleaning.Cleaner, "_finish", finish_and_drop)]


def _revive_the_settled() -> list[Patch]:
    return [(Receipts, "settling", lambda *_: {})]


def _apply_early() -> list[Patch]:
    def has_committed(self: Any) -> bool:
        return bool(self.driver.taken_index < self.journal.last_index)

    def take_early(self: Any, bytes_max: int) -> list[Any]:
        entries = self._journal.entries(self._state.taken_index + 1, bytes_max)
        self._state.taken_index = entries[-1].index
        return list(entries)

    return [
        (ReplicatedStore, "has_committed", has_committed),
        (driver.Driver, "take_committed", take_early),
    ]


def _skip_the_directory() -> list[Patch]:
    return [(Housekeeper, "sync_directory", lambda _self: None)]


def _truncate_at_every_append() -> list[Patch]:
    on_append = follower.on_append

    def on_append_and_cut(state: State, peer: str, message: Any) -> None:
        on_append(state, peer, message)
        end = max(message.previous_index + len(message.entries), state.commit_index)
        if message.entries and message.term == state.term and end < state.log.last_index:
            state.cut_log_after(end)

    from holdfast.replication import consensus  # noqa: PLC0415 - its table holds the function
    from holdfast.replication.messages import AppendRequest  # noqa: PLC0415 - see above

    steps = {**consensus._STEPS, AppendRequest: on_append_and_cut}
    return [(consensus, "_STEPS", steps)]


def _count_the_witness() -> list[Patch]:
    committable = leader.committable

    def with_witness(state: State) -> int:
        last = state.log.journal.stored_index
        for name, progress in state.progress.items():
            if state.members[name].kind == "witness":
                progress.match_index = min(last, progress.next_index - 1)
        return committable(state)

    return [(leader, "committable", with_witness)]


def _trim_at_once() -> list[Patch]:
    def trim(self: Any) -> None:
        state = self._state
        self._trim_deadline = state.now + state.settings.trim_seconds
        limit = min(state.commit_index, state.config_index)
        if state.is_witness and limit > self._journal.first_index:
            self._journal.drop_before(limit)

    return [(driver.Driver, "_trim", trim)]


def _split_the_batch() -> list[Patch]:
    append = ReplicatedStore.append

    def append_in_two(self: Any, records: Any, now: float, wall: int, body: Any = None) -> int:
        del body  # In two it is another.
        half = len(records) // 2
        if half:
            append(self, records[:half], now, wall)
        return append(self, records[half:], now, wall)

    return [(ReplicatedStore, "append", append_in_two)]


def _reply_at_once() -> list[Patch]:
    seal = Conductor._seal

    def seal_and_reply(self: Any, now: float) -> None:
        seal(self, now)
        for batch in self.broker.receipts.in_flight:
            replies, batch.replies = batch.replies, []
            for replier, receipt in replies:
                replier.reply(receipt)

    return [(Conductor, "_seal", seal_and_reply)]


def _apply_by_index() -> list[Patch]:
    apply = Conductor._apply_committed

    def apply_whatever_the_term(self: Any, now: float) -> bool:
        take = self.store.take_committed

        def in_our_term(bytes_max: int) -> list[Entry]:
            return [
                Entry(
                    entry.index,
                    self.context.term,
                    entry.kind,
                    entry.timestamp,
                    entry.first_record,
                    entry.record_count,
                    entry.chain,
                    entry.raw,
                    entry.body_length,
                )
                for entry in take(bytes_max)
            ]

        self.store.take_committed = in_our_term
        try:
            return apply(self, now)
        finally:
            del self.store.take_committed

    return [(Conductor, "_apply_committed", apply_whatever_the_term)]


def _believe_the_cache() -> list[Patch]:
    def note_floor(self: Any, floor: int, chain: bytes, *_: Any, **_options: Any) -> None:
        self.save_floor(floor, chain)

    return [(BallotFile, "write_again", note_floor)]


def _believe_an_older_copy() -> list[Patch]:
    def listen_only(state: State, peer: str, shown: Any) -> str:
        state.editions.hear(peer, shown)
        return ""

    def never(_state: State, _peer: str) -> bool:
        return False

    return [
        (editions, "_heed", listen_only),
        (candidate, "is_doubted", never),
        (voting, "is_doubted", never),
    ]


def _never_flag() -> list[Patch]:
    return [(queue, "flagged_through", lambda *_arguments: 0)]


def _serve_early() -> list[Patch]:
    # It is kept twice: by the driver, and by the store for a hand-over that is given up.
    return [
        (DriverView, "is_serving", property(lambda self: self.is_leader)),
        (ReplicatedStore, "is_applied_whole", property(lambda _self: True)),
    ]


def _forget_the_unknown() -> list[Patch]:
    def own_position(self: Any) -> tuple[int, int]:
        return (self.journal.last_term, self.journal.last_index)

    def resolve(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        self.tail.unknown_through = 0

    make = Journal.__init__
    return [
        (ReplicatedLog, "election_position", own_position),
        (Journal, "__init__", resolve),
    ]


def _change_at_any_time() -> list[Patch]:
    return [(reconfiguration, "may_change", lambda _state: "")]


def _vote_again() -> list[Patch]:
    vote = voting.on_vote_request

    def forget_and_vote(state: State, peer: str, message: Any) -> None:
        if message.term == state.term and state.role is not Role.LEADER:
            state.voted_for = None
        vote(state, peer, message)

    from holdfast.replication import consensus  # noqa: PLC0415 - its table holds the function
    from holdfast.replication.messages import VoteRequest  # noqa: PLC0415 - see above

    steps = {**consensus._STEPS, VoteRequest: forget_and_vote}
    return [(consensus, "_STEPS", steps)]


def _forget_the_floor() -> list[Patch]:
    scan_log = opening.__dict__["scan_log"]

    def scan_without(*arguments: Any, **options: Any) -> Any:
        claim = options["claim"]._replace(floor=0, floor_chain=b"")
        return scan_log(*arguments, **{**options, "claim": claim})

    return [(opening, "scan_log", scan_without)]


def _ignore_the_sites() -> list[Patch]:
    advance = leader.__dict__["committable_index"]

    def anywhere(matches: Any, copies: int, _sites: int) -> int:
        return int(advance(matches, copies, 1))

    return [(leader, "committable_index", anywhere)]


def _dispatch_without_lease() -> list[Patch]:
    return [(DriverView, "may_dispatch", lambda self, _now: self.is_leader)]


def _serve_damage() -> list[Patch]:
    def claim_all(self: Any) -> int:
        return int(self.journal.stored_index)

    return [
        (ReplicatedLog, "acknowledgeable_index", property(claim_all)),
        (ReplicatedLog, "is_whole", property(lambda _self: True)),
    ]


def _quick_failures(made: Plan) -> None:
    made.window_bytes = made.append_bytes_max = 1
    made.pause_seconds = (0.01, 0.12)
    made.chaos_seconds = 6.0


def _slow_disks(made: Plan) -> None:
    made.sync_seconds = (0.02, 0.1)
    made.pause_seconds = (0.6, 1.5)
    made.chaos_seconds = 6.0


def _witness(made: Plan) -> None:
    made.topology = "witness"


def _five(made: Plan) -> None:
    made.topology = "five"


def _three_sites(made: Plan) -> None:
    made.topology, made.sites = "five", 3


def _long(made: Plan) -> None:
    made.chaos_seconds = 14.0


def _small_segments(made: Plan) -> None:
    made.segment_bytes = 8 * 1024


_RESTARTS = ("crash", "power cut", "partition", "heal network", "pause")

ABLATIONS = [
    Ablation("acknowledge before the sync", _claim_what_is_staged),
    Ablation("vote before the sync", _send_before_the_ballot),
    Ablation(
        "count entries of old terms",
        _count_old_terms,
        ("two leaders die with what only they have",),
        _quick_failures,
    ),
    Ablation("no pre-vote", _stand_without_asking, ("partition",), _long),
    Ablation("truncate a corrupt tail", _truncate_corruption, ("bit flip", "crash", "power cut")),
    Ablation("retry a failed sync", _retry_the_sync, ("fsync EIO",)),
    Ablation("reuse an identity after a wipe", _keep_the_identity, ("wiped disk",)),
    Ablation(
        "a lease by another machine's clock",
        _believe_any_clock,
        ("leader cut off, then paused", "heal network"),
    ),
    Ablation(
        "a lease longer than the election",
        _lease_for_long,
        ("partition", "one-way cut", "heal network", "pause"),
    ),
    Ablation(
        "forget the deduplication table when cleaning",
        _forget_producers,
        _RESTARTS,
        _small_segments,
    ),
    Ablation("forget a queue's record when cleaning", _forget_queues, _RESTARTS, _small_segments),
    Ablation("forget the level when cleaning", _forget_the_level, _RESTARTS, _small_segments),
    Ablation("do not write living messages again", _forget_the_living, (), _small_segments),
    Ablation(
        "drop a segment before its living are committed again", _drop_at_once, (), _small_segments
    ),
    Ablation("write settled messages again", _revive_the_settled, _RESTARTS, _small_segments),
    Ablation("apply what is not committed", _apply_early),
    Ablation("skip the directory's sync", _skip_the_directory),
    Ablation("a delayed append truncates", _truncate_at_every_append, ("bad links",)),
    Ablation("count a witness without the log", _count_the_witness, ("crash",), _witness),
    Ablation("a witness trims at once", _trim_at_once, _RESTARTS, _witness),
    Ablation("split a transaction over two entries", _split_the_batch),
    Ablation("reply before the commit", _reply_at_once),
    Ablation(
        "apply a batch for any entry of its index",
        _apply_by_index,
        ("leader cut off, then paused",),
    ),
    Ablation(
        "believe a ballot that only the cache may have",
        _believe_the_cache,
        ("power cut", "fsync EIO", "partition", "heal network"),
    ),
    Ablation(
        "an older copy of a disk is believed",
        _believe_an_older_copy,
        ("disk rolled back", "crash", "partition", "heal network"),
    ),
    Ablation("no dispatch mark", _never_flag),
    Ablation("vote for a shorter log", lambda: [(voting, "_is_complete", lambda *_a: True)]),
    Ablation(
        "commit alone",
        lambda: [(leader, "committable", lambda state: state.log.journal.stored_index)],
    ),
    Ablation("serve before the own term is committed", _serve_early, ("crash",), _slow_disks),
    Ablation(
        "forget that the tail is unknown",
        _forget_the_unknown,
        ("crash and a bit flip at the log's end",),
    ),
    Ablation(
        "change members while a change is under way",
        _change_at_any_time,
        ("add member", "remove member", "partition", "heal network"),
        _five,
    ),
    Ablation("vote twice in a term", _vote_again, ("bad links", "crash")),
    Ablation("no durable floor", _forget_the_floor, ("cut tail", "crash")),
    Ablation("commit on one site", _ignore_the_sites, ("crash", "bad links"), _three_sites),
    Ablation(
        "dispatch without a lease",
        _dispatch_without_lease,
        ("clock skew", "partition", "heal network"),
        covered_by=(
            "a leader without a quorum steps down at the start of each turn; the lease is for a"
            " process that is stopped within a turn, and here a turn takes no time"
        ),
    ),
    Ablation("claim damaged entries", _serve_damage, ("bit flip", "crash", "power cut")),
    *ABLATIONS_BY_TOPIC,
]


def main(arguments: Sequence[str] | None = None) -> int:
    """Try each ablation; the exit code is 1 if one is not caught."""
    parser = argparse.ArgumentParser(prog="python -m trials.ablations")
    parser.add_argument("--seeds", type=int, default=SEEDS_MAX, help="at most, for each")
    parser.add_argument("--only", default="", help="those whose name contains this")
    chosen = parser.parse_args(arguments)
    console = Console(highlight=False, soft_wrap=True)
    missed = 0
    tried = [ablation for ablation in ABLATIONS if chosen.only in ablation.name]
    for ablation in tried:
        seeds_max = _COVERED_SEEDS if ablation.covered_by else chosen.seeds
        found = catch(ablation, range(1, seeds_max + 1))
        if found is not None:
            console.print(f"seed {found[0]:>4}  {ablation.name}: {found[1]}", markup=False)
        elif ablation.covered_by:
            console.print(f"not seen   {ablation.name}: {ablation.covered_by}", markup=False)
        else:
            missed += 1
            console.print(f"NOT CAUGHT {ablation.name}: {seeds_max} seeds", markup=False)
    must = sum(not ablation.covered_by for ablation in tried)
    console.print(f"{must - missed} of {must} that must be caught are caught")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
