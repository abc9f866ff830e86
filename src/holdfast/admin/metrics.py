"""
The node's numbers in Prometheus' text format.

Counted nowhere twice: each scrape reads the same status that the operator sees and turns it into
samples. The registry belongs to one node, so two nodes in one process (as in tests) do not mix.

Single queues have samples on request only: there may be a hundred thousand.

Called on the node's loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from holdfast.admin.counters import DurationStatus
from holdfast.admin.lease_metrics import lease_metrics
from holdfast.admin.metric_kinds import counter as _counter
from holdfast.admin.metric_kinds import gauge as _gauge
from holdfast.admin.metrics_selection import NO_QUEUES, Selection
from holdfast.admin.operations import Operations
from holdfast.admin.queue_pages import Survey, matching, survey
from holdfast.admin.slices import Remembered, Slices
from holdfast.admin.status import HoldStatus, MemberStatus, NodeStatus, QueueStatus

_QUEUES_PER_PIECE = 64
ROLES = ("leader", "follower", "candidate", "witness", "learner", "standby")

_MESSAGE_COUNTERS = (
    ("enqueued", "Messages put on a queue, or on a topic while this node led"),
    ("delivered", "Messages sent to a consumer"),
    ("acknowledged", "Messages taken off a queue for good: acknowledged, rejected, purged"),
    ("redelivered", "Messages sent to a consumer again"),
    ("receipts", "Receipts sent to clients"),
    ("refused", "Requests that were understood and refused"),
    ("dead_lettered", "Rejected messages stored on the dead-letter queue"),
    ("expired", "Messages whose time was over before anybody got them"),
    ("fired", "Times that a scheduled message was sent"),
    ("scheduled_refused", "Scheduled messages that their senders may not send any more"),
    ("evicted", "Messages dropped as too many waited for a subscription of a topic"),
    ("advisories_missed", "Advisories that nobody was told, as too many were on their way"),
    ("dropped", "Messages taken off queues and durable subscriptions that were full"),
    ("unmatched", "Messages that policies forward, and that fit no destination of theirs"),
    ("duplicates", "Sends that were stored before and only confirmed again"),
    ("answers_refused", "Messages refused as who reads their temporary destination was behind"),
)
_MEMBER_GAUGES = (
    ("lag_entries", "Entries a member is behind the leader"),
    ("lag_records", "Records a member is behind the leader"),
    ("lag_bytes", "Bytes of log a member is behind the leader"),
    ("lag_seconds", "Seconds a member is behind the leader"),
    ("match_index", "Last entry known to be durable on a member"),
)
_QUEUE_GAUGES = (
    ("messages", "Messages held, those under way included"),
    ("unacknowledged", "Messages sent to a consumer and not settled"),
    ("consumers", "Subscriptions on the queue"),
    ("bytes", "Bytes of the messages held"),
)
_SURVEY_GAUGES = (
    ("count", "Queues, temporary ones too"),
    ("messages", "Messages on all queues, those under way included"),
    ("messages_max", "Messages on the queue that has the most"),
    ("unacknowledged", "Messages of all queues sent to a consumer and not settled"),
    ("consumers", "Subscriptions on queues"),
    ("bytes", "Bytes of the messages on all queues"),
)
_DURABLE_GAUGES = (
    ("count", "Durable subscriptions of topics"),
    ("messages", "Messages that they were not given or have not acknowledged, those of each"),
    ("messages_max", "Messages of the durable subscription that has the most"),
    ("unacknowledged", "Messages sent to their consumers and not settled"),
    ("consumers", "Durable subscriptions that have a consumer"),
    ("bytes", "Bytes of the messages that they have, those of each"),
)
_QUEUE_COUNTERS = (
    ("enqueued", "Messages put on the queue"),
    ("acknowledged", "Messages taken off the queue for good: acknowledged, rejected, purged"),
    ("redelivered", "Messages of the queue sent again"),
    ("dropped", "Messages taken off the queue as it was full and newer ones came"),
)


_HOLD_GAUGES: tuple[tuple[str, str, Callable[[HoldStatus], float]], ...] = (
    ("index", "The entry that a reader of the log takes next", lambda hold: hold.index),
    ("bytes", "Bytes of log kept for a reader", lambda hold: hold.held_bytes),
    ("bytes_max", "Bytes of log kept for a reader at most", lambda hold: hold.bytes_max),
    ("lost_through", "Entries a reader has lost, 0 if none", lambda hold: hold.lost_through),
    ("silent_seconds", "Since a reader was last heard of", lambda hold: hold.silent_seconds),
    ("expiry_seconds", "Silent for so long it ends; 0: never", lambda hold: hold.expiry_seconds),
    (
        "lost_to_space",
        "1 if entries were lost because the disk was almost full",
        lambda hold: hold.lost_because == "space",
    ),
    ("alarm", "1 if a reader is about to lose entries", lambda hold: hold.is_alarm),
)


class Metrics:
    """The numbers of one node, ready to be scraped."""

    __slots__ = ("_durables", "_matches", "_open", "_operations", "_proven", "_surveys")

    def __init__(self, operations: Operations) -> None:
        self._operations = operations
        self._surveys: Remembered[Survey] = Remembered()
        self._durables: Remembered[Survey] = Remembered()
        self._matches: Remembered[tuple[list[str], int]] = Remembered()
        self._open = CollectorRegistry()
        self._open.register(_NodeCollector(operations))
        self._proven = CollectorRegistry()
        self._proven.register(_NodeCollector(operations))
        self._proven.register(_HoldCollector(operations))

    async def pieces(
        self, slices: Slices, selection: Selection = NO_QUEUES, *, is_proven: bool = False
    ) -> list[bytes]:
        """
        All samples now in Prometheus' text format, put together in slices.

        Of queues the sums, and those single ones that were asked for. Who reads the log is told
        only with a proof.
        """
        found = [generate_latest(self._proven if is_proven else self._open)]
        await slices.rest()
        queues, age = await self._surveys.find(
            selection.deepest, slices, lambda: self._survey(selection.deepest, slices)
        )
        durables, _ = await self._durables.find(0, slices, lambda: self._survey_durables(slices))
        lines = [*_survey_lines(queues, age)]
        lines += [_survey_line("durable_subscriptions", durables, it) for it in _DURABLE_GAUGES]
        found.append(b"".join(lines))
        names, left_out = queues.deepest, 0
        if selection.pattern:
            (names, left_out), _ = await self._matches.find(
                selection.pattern, slices, lambda: self._matching(selection.pattern, slices)
            )
        if selection != NO_QUEUES:
            text = "Queues that fit the pattern and have no samples: too many do"
            found.append(_sample("queues_left_out", text, left_out))
            found += await self._of_single(names, slices)
        return found

    async def _survey(self, deepest: int, slices: Slices) -> Survey:
        return await survey(self._operations.queue_depths(), deepest, slices)

    async def _survey_durables(self, slices: Slices) -> Survey:
        return await survey(self._operations.subscription_depths(), 0, slices)

    async def _matching(self, pattern: str, slices: Slices) -> tuple[list[str], int]:
        return await matching(self._operations.queue_names(), pattern, slices)

    async def _of_single(self, names: list[str], slices: Slices) -> list[bytes]:
        queues: list[QueueStatus] = []
        async for some in slices.some(self._operations.queues(names)):
            queues += [queue for queue in some if queue is not None]
        found: list[bytes] = []
        for kind, families in (("gauge", _QUEUE_GAUGES), ("counter", _QUEUE_COUNTERS)):
            for field, text in families:
                name = f"holdfast_queue_{field}{'_total' if kind == 'counter' else ''}"
                found.append(f"# HELP {name} {text}\n# TYPE {name} {kind}\n".encode())
                pieces = slices.some(queues, _QUEUES_PER_PIECE)
                found += [_queue_lines(piece, field, name) async for piece in pieces]
        return found


class _HoldCollector(Collector):
    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand, as for the node."""
        return ()

    def collect(self) -> Iterator[Metric]:
        yield from _hold_metrics(self._operations.status().holds)


class _NodeCollector(Collector):
    def __init__(self, operations: Operations) -> None:
        self._operations = operations

    def describe(self) -> Iterable[Metric]:
        """Nothing beforehand: names are fixed, and the node may not have started yet."""
        return ()

    def collect(self) -> Iterator[Metric]:
        status = self._operations.status()
        yield from _node_metrics(status)
        yield from _store_metrics(status)
        if status.lease is not None:
            yield from lease_metrics(status.lease)
        yield _gauge("holds", "Named readers that the log is kept for", len(status.holds))
        near = sum(hold.is_alarm for hold in status.holds)
        yield _gauge("holds_alarm", "How many of them are about to lose entries", near)
        yield from _counter_metrics(status)
        yield from _member_metrics(status.members, status.name)


def _node_metrics(status: NodeStatus) -> Iterator[Metric]:
    labels = {
        "name": status.name,
        "version": status.version,
        "cluster_id": status.cluster_id,
        "site": status.site,
    }
    yield InfoMetricFamily("holdfast_node", "Who this node is", value=labels)
    role = GaugeMetricFamily("holdfast_role", "1 for the role this node has", labels=["role"])
    for name in ROLES:
        role.add_metric([name], float(status.role == name))
    yield role
    yield _gauge("serving", "1 if this node accepts clients", status.serving)
    yield _gauge("term", "Number of the last election known", status.term)
    yield _gauge("generation", "Generation of the cluster", status.generation)
    yield _gauge("commit_index", "Last entry known to be on a quorum", status.commit_index)
    yield _gauge("applied_index", "Last entry handed to the broker", status.applied_index)
    yield _gauge("uptime_seconds", "Seconds since the process started", status.uptime_seconds)
    yield _gauge("turn_seconds_max", "Longest turn of the loop so far", status.turn_seconds_max)
    yield _gauge(
        "turn_cpu_seconds_max",
        "Longest that a core has worked for one turn of the loop",
        status.turn_cpu_seconds_max,
    )
    yield _gauge("connections", "Clients connected", status.connections)
    yield _gauge("connections_max", "Clients that the port takes", status.connections_max)
    text = "Clients closed because the port was full"
    yield _counter("connections_turned_away", text, status.connections_turned_away)
    topics = status.topics
    yield _gauge("topics_stored", "Topics that have durable subscriptions", topics.stored)
    yield _gauge("topics_messages", "Messages stored of these, each once", topics.messages)
    yield _gauge("topics_bytes", "Bytes of those", topics.bytes)
    yield _gauge("memory_bytes", "Message bodies kept in memory", status.memory.used_bytes)
    yield _gauge("memory_limit_bytes", "Limit of those", status.memory.limit_bytes)
    producers = status.producers
    yield _gauge("producers", "Producers whose last sequence is known", producers.count)
    yield _gauge("producers_max", "Beyond it the oldest are forgotten", producers.count_max)
    yield _counter("producers_forgotten", "Producers forgotten", producers.forgotten)
    if status.certificates:
        left = GaugeMetricFamily(
            "holdfast_certificate_left_seconds",
            "Until a certificate or a list of revocations runs out; less than 0: it has",
            labels=["tls", "kind", "named"],
        )
        for it in status.certificates:
            left.add_metric([it.tls, it.kind, it.named], it.left_seconds)
        yield left


def _store_metrics(status: NodeStatus) -> Iterator[Metric]:
    store = status.store
    yield _gauge("store_bytes", "Bytes of the log on disk", store.bytes_on_disk)
    yield _gauge("store_segments", "Files of the log", store.segments)
    yield _gauge("store_live_messages", "Messages not yet settled", store.live_messages)
    yield _gauge("store_first_index", "Oldest entry kept", store.first_index)
    yield _gauge("store_last_index", "Newest entry", store.last_index)
    yield _gauge("store_space_low", "1 while publishing is refused", store.space == "low")
    text = "Bytes of log beyond which publishing is refused; 0: no such limit"
    yield _gauge("store_limit_bytes", text, store.limit_bytes)
    text = "1 while nothing is stored for want of room"
    yield _gauge("store_out_of_room", text, store.is_out_of_room)
    text = "1 while space is low and cleaning can free nothing"
    yield _gauge("store_full_of_live", text, store.is_full_of_live)
    if store.free_bytes is not None:
        yield _gauge("store_free_bytes", "Bytes free on the disk of the log", store.free_bytes)
    yield _gauge("store_disk_wait_seconds", "Since the disk hangs", store.disk_wait_seconds)
    text = "Queues with messages in a damaged entry that keeps the log from being cleaned"
    yield _gauge("store_pinned_queues", text, store.pinned_queue_count)
    text = "Files that are not needed and could not be removed"
    yield _gauge("store_unremovable_files", text, len(store.unremovable))
    yield _counter("store_mended", "Pieces mended by another mirror's copy", store.mended)
    if store.mirrors:
        gauge = GaugeMetricFamily(
            "holdfast_mirror", "1 for the state of each mirror", labels=["directory", "state"]
        )
        for it in store.mirrors:
            gauge.add_metric([it.directory, it.state], 1)
        yield gauge
    yield _gauge("store_damage", "Damaged places not repaired yet", store.unrepaired_count)


def _hold_metrics(holds: Iterable[HoldStatus]) -> Iterator[Metric]:
    for name, text, value in _HOLD_GAUGES:
        gauge = GaugeMetricFamily(f"holdfast_hold_{name}", text, labels=["hold"])
        for hold in holds:
            gauge.add_metric([hold.name], float(value(hold)))
        yield gauge


def _counter_metrics(status: NodeStatus) -> Iterator[Metric]:
    for name, text in _MESSAGE_COUNTERS:
        yield _counter(f"messages_{name}", text, getattr(status.messages, name))
    text = "ERRORs that clients were told: requests refused, rules broken; by their code"
    refusals = CounterMetricFamily("holdfast_refusals", text, labels=["code"])
    for code, count in sorted(status.refusals.items()):
        refusals.add_metric([code], float(count))
    yield refusals
    text = "Queues that went as nobody used them"
    yield _counter("queues_removed", text, status.queues_removed)
    consumers = status.consumers
    yield _gauge("consumers_slow", "Consumers found slow, where policies look", consumers.slow)
    text = "Consumers ended as they were slow for too long"
    yield _counter("consumers_aborted", text, consumers.aborted)
    batches = status.batches
    yield _counter("batches", "Batches sealed while this node led", batches.batches)
    yield _counter("records", "Records in those batches", batches.records)
    yield _counter("batch_bytes", "Bytes written to the log, by a follower too", batches.bytes)
    yield _gauge("uncommitted_bytes", "Bytes sealed, not yet committed", batches.uncommitted_bytes)
    syncs = batches.serving_syncs
    per_sync = batches.records / syncs if syncs else 0.0
    yield _gauge("records_per_sync", "Records made durable by one sync, on average", per_sync)
    yield _histogram("sync_seconds", "How long a sync of the disk takes", batches.syncs)


def _member_metrics(members: Iterable[MemberStatus], own: str) -> Iterator[Metric]:
    members = tuple(members)
    up = GaugeMetricFamily(
        "holdfast_member_connected", "1 if the link to a member is up", labels=["member"]
    )
    for member in members:
        up.add_metric([member.name], float(member.connected or member.name == own))
    yield up
    for name, text in _MEMBER_GAUGES:
        gauge = GaugeMetricFamily(f"holdfast_member_{name}", text, labels=["member"])
        for member in members:
            value = getattr(member, name)
            if value is not None:
                gauge.add_metric([member.name], value)
        yield gauge


def _survey_lines(queues: Survey, age_seconds: float) -> Iterator[bytes]:
    text = "Seconds since all queues were looked at: very many are not looked at each time"
    yield _sample("queues_age_seconds", text, age_seconds)
    for gauge in _SURVEY_GAUGES:
        yield _survey_line("queues", queues, gauge)


def _survey_line(name: str, found: Survey, gauge: tuple[str, str]) -> bytes:
    field, text = gauge
    return _sample(name if field == "count" else f"{name}_{field}", text, getattr(found, field))


def _sample(name: str, text: str, value: float) -> bytes:
    full = f"holdfast_{name}"
    return f"# HELP {full} {text}\n# TYPE {full} gauge\n{full} {float(value)}\n".encode()


def _queue_lines(queues: list[QueueStatus], field: str, name: str) -> bytes:
    """Write samples of one family, a label for each queue; the library writes all at once."""
    return "".join(
        f'{name}{{queue="{_escaped(queue.name)}"}} {float(getattr(queue, field))}\n'
        for queue in queues
    ).encode()


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def _histogram(name: str, text: str, durations: DurationStatus) -> Metric:
    buckets: list[tuple[str, float]] = [(f"{bound:g}", count) for bound, count in durations.buckets]
    buckets.append(("+Inf", durations.count))
    return HistogramMetricFamily(
        f"holdfast_{name}", text, buckets=buckets, sum_value=durations.seconds_sum
    )
