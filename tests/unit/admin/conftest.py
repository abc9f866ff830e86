"""
A node that exists only on paper: three members, two queues, and a list of the changes asked of it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.admin.counters import (
    BatchCounters,
    DurationStatus,
    MessageCounters,
    ProducerStatus,
    TopicCounters,
)
from holdfast.admin.message_requests import MessageRequest, MessageStep
from holdfast.admin.policy_status import PoliciesStatus, PolicyStatus, PolicyValue
from holdfast.admin.status import (
    ConnectionStatus,
    DamageStatus,
    HoldRequest,
    HoldStatus,
    LogPosition,
    LogSlice,
    MemberKind,
    MemberStatus,
    NodeStatus,
    QueueDepth,
    QueueStatus,
    SegmentStatus,
    StoreStatus,
)
from holdfast.admin.subscription_status import SubscriptionStatus, key_of, key_text
from holdfast.admin.user_status import Decision, GrantStatus, TokenStatus, UserStatus
from holdfast.errors import AccessError
from holdfast.model.destination import Destination, Kind
from holdfast.security.grants import Right
from holdfast.security.passwords import KeptPassword

MEMBERS = (
    MemberStatus(name="a", address="127.0.0.1:1", connected=True, admin="127.0.0.1:8161"),
    MemberStatus(
        name="b",
        address="127.0.0.1:2",
        connected=True,
        match_index=90,
        lag_entries=10,
        lag_records=200,
        lag_bytes=4096,
        lag_seconds=0.5,
        admin="127.0.0.1:8162",
        life="0b" * 16,
    ),
    MemberStatus(name="c", address="127.0.0.1:3", kind="learner"),
)
LEADER = NodeStatus(
    name="a",
    role="leader",
    node_id="00" * 16,
    leader="a",
    leader_contact_seconds=0.0,
    serving=True,
    term=7,
    commit_index=100,
    applied_index=99,
    producers=ProducerStatus(count=5, count_max=9, forgotten=7),
    members=MEMBERS,
    copies=2,
    store=StoreStatus(
        bytes_on_disk=1_000_000,
        segments=2,
        live_messages=12,
        first_index=1,
        last_index=101,
        free_bytes=5_000_000,
        damage=(DamageStatus(segment="00.segment", byte=8192, index=5, reason="checksum"),),
    ),
    topics=TopicCounters(stored=2, messages=6, bytes=600, durable_subscriptions=3, offline=1),
    cluster_id="11" * 16,
    version="0.1.0",
    connections=1,
    connections_max=100,
    connections_turned_away=3,
    messages=MessageCounters(
        enqueued=1000,
        acknowledged=988,
        dead_lettered=4,
        duplicates=6,
        expired=8,
        fired=9,
        scheduled_refused=2,
    ),
    batches=BatchCounters(
        batches=20,
        records=1988,
        serving_syncs=7,
        syncs=DurationStatus(count=10, seconds_sum=0.02, buckets=((0.001, 4), (0.01, 10))),
    ),
)


class PaperUsers:
    """Two users and a grant; notes what is asked for with the node's other changes."""

    def __init__(self, note) -> None:
        self._note = note
        self.hashed: list[str] = []
        self.keeps_scram = False
        self.are_known = True

    async def is_known(self) -> bool:
        return self.are_known

    def users(self) -> list[UserStatus]:
        token = TokenStatus(name="ci", expires_ms=5)
        ann = UserStatus(name="ann", roles=("admin",), has_password=True, tokens=(token,))
        return [ann, UserStatus(name="ben", revision=3)]

    def grants(self) -> list[GrantStatus]:
        return [GrantStatus(role="sales", rights=("read", "write"), pattern="queue://A.>")]

    def decisions(self, name: str, destination: Destination) -> list[Decision]:
        if name != "ann":
            raise AccessError(f"there is no user {name!r}")
        allowed = Decision(right="read", is_allowed=True, grants=tuple(self.grants()))
        return [allowed, Decision(right=f"write {destination}", is_allowed=False)]

    async def keep_password(self, name: str, password: str) -> KeptPassword:
        if password == "unfit" or len(password) > 1024:
            raise AccessError("a password has 1 to 1,024 bytes")
        self.hashed.append(password)
        keys = {"of": name, "iterations": 7} if self.keeps_scram else None
        return KeptPassword(f"kept-{len(self.hashed)}", keys)

    async def add(self, name: str, roles, kept: KeptPassword | None) -> int:
        self._note("add user", name, roles, kept)
        return 0 if name == "first" else 2

    async def set_roles(self, name: str, roles) -> None:
        self._note("set roles", name, roles)

    async def set_password(self, name: str, kept: KeptPassword) -> None:
        self._note("set password", name, kept)

    async def make_token(self, name: str, token: str, digest: str, expires_seconds: int) -> None:
        self._note("make token", name, token, digest, expires_seconds)

    async def end_token(self, name: str, token: str) -> None:
        self._note("end token", name, token)

    async def remove(
        self, name: str, *, is_last_meant: bool, ends_subscriptions: bool = False
    ) -> int:
        self._note("remove user", name, is_last_meant)
        return 5 * ends_subscriptions

    def left_by(self, name: str) -> int:
        return 3 * (name == "cas")

    async def give_subscription(self, client_id: str, name: str, user: str) -> None:
        self._note("give subscription", client_id, name, user)

    async def grant(self, grant) -> frozenset[Right]:
        self._note("grant", str(grant))
        return frozenset({Right.READ, Right.ADMIN})

    async def revoke(self, grant) -> frozenset[Right]:
        self._note("revoke", str(grant))
        return frozenset()


class PaperNode:
    """Answers from its fields; remembers changes; raises `failure` at a change if it has one."""

    def __init__(self) -> None:
        self.now = LEADER
        self.users = PaperUsers(self._note)
        self.changes: list[tuple[object, ...]] = []
        self.shown: list[dict[str, object]] = []
        self.failure: Exception | None = None
        self.log = Path("/nowhere")
        self.slice_bytes = 0
        self.durables = [
            SubscriptionStatus(client_id="ann", name="mine", topic="prices", messages=4),
            SubscriptionStatus(client_id="", name="prices:d", topic="prices", is_active=True),
        ]
        self.present = [
            QueueStatus(name="orders/new", number=2, messages=3, unacknowledged=1, consumers=1),
            QueueStatus(name="mail", number=1, messages=9, enqueued=20, acknowledged=11),
        ]

    def be(self, **fields: object) -> None:
        self.now = replace(self.now, **fields)

    def status(self) -> NodeStatus:
        return self.now

    def queue_names(self) -> list[str]:
        return [queue.name for queue in self.present]

    def queue_depths(self) -> list[QueueDepth | None]:
        return [
            None,
            *(
                QueueDepth(it.name, it.messages, it.unacknowledged, it.consumers, it.bytes)
                for it in self.present
            ),
        ]

    def subscription_depths(self) -> list[QueueDepth | None]:
        return [
            None,
            *(QueueDepth(it.name, it.messages, 0, it.is_active, it.bytes) for it in self.durables),
        ]

    def queues(self, names: Iterable[str]) -> list[QueueStatus | None]:
        known = {queue.name: queue for queue in self.present}
        return [None, *(known[name] for name in names if name in known)]

    def has_queue(self, name: str) -> bool:
        return name in self.queue_names()

    def connections(self) -> list[ConnectionStatus]:
        return [ConnectionStatus(id="1", peer="127.0.0.1:50000", protocol="stomp/1.2")]

    async def segments(
        self, after: int, seconds_max: float | None
    ) -> tuple[list[SegmentStatus], int]:
        found = [
            SegmentStatus(base_index=1, last_index=49, bytes=20, sealed=True, digest="ab"),
            SegmentStatus(base_index=50, last_index=101, bytes=10),
        ]
        left = [it for it in found if it.base_index > after]
        return (left[:1], left[0].base_index) if seconds_max and left[1:] else (left, 0)

    def log_position(self, from_index: int, bytes_max: int, *, with_bases: bool) -> LogPosition:
        through = from_index + bytes_max if from_index else 0
        return LogPosition(
            name=self.now.name,
            role=self.now.role,
            cluster_id="c" * 32,
            first_index=1,
            commit_index=101,
            through_index=through,
            bases=(1, 50),
        )

    def log_slice(self, from_index: int, bytes_max: int, through: int) -> LogSlice:
        self._note("slice", from_index, bytes_max, through)
        return LogSlice(path=self.log, start=4, size=self.slice_bytes, next_index=from_index + 2)

    async def keep_log(self, name: str, wanted: HoldRequest) -> HoldStatus:
        self._note("keep", name, wanted)
        return HoldStatus(name=name, index=wanted.index, bytes_max=wanted.bytes_max or 7)

    async def release_log(self, name: str) -> None:
        self._note("release", name)

    def policies(self) -> PoliciesStatus:
        said = PolicyStatus(pattern="queue://a.>", source="set", values={"queuePrefetch": 7})
        return PoliciesStatus(revision=3, policies=(said,))

    def policy_of(self, kind: Kind, name: str) -> list[PolicyValue]:
        key = f"{kind.value} {name}"
        return [PolicyValue(key=key, value=1, source="default", setting="x.y")]

    async def say_policy(self, pattern, values) -> dict[str, object]:
        self._note("say", str(pattern), values)
        return values

    async def take_back_policy(self, pattern, names) -> dict[str, object]:
        self._note("take back", str(pattern), names)
        return {}

    async def transfer(self, to: str | None) -> str:
        self._note("transfer", to)
        return to or "b"

    async def add_member(self, name: str, address: str, *, kind: MemberKind, site: str) -> None:
        self._note("add", name, address, kind, site)

    async def remove_member(self, name: str) -> None:
        self._note("remove", name)

    async def promote(self, name: str) -> None:
        self._note("promote", name)

    async def promote_force(self, companions, *, is_incomplete_accepted: bool) -> None:
        named = [end.name for end in companions]
        self._note("promote_force", *named, *(["incomplete"] if is_incomplete_accepted else []))

    async def purge(self, queue: str) -> int:
        self._note("purge", queue)
        return 9

    async def delete(self, queue: str) -> int:
        self._note("delete", queue)
        return 9

    def subscription_keys(self) -> list[str]:
        return [key_text(it.client_id, it.name) for it in self.durables]

    def subscriptions(self, keys: Iterable[str]) -> list[SubscriptionStatus | None]:
        wanted = set(map(key_of, keys))
        return [None, *(it for it in self.durables if (it.client_id, it.name) in wanted)]

    async def end_subscription(self, client_id: str, name: str) -> int:
        self._note("end", client_id, name)
        return 4

    async def messages(self, wanted: MessageRequest) -> MessageStep:
        self._note("messages", wanted)
        step = MessageStep(queue=wanted.queue, action=wanted.action, count=3)
        step.after, step.is_done = 12, True
        step.messages = self.shown
        return step

    def _note(self, *change: object) -> None:
        if self.failure is not None:
            raise self.failure
        self.changes.append(change)


@pytest.fixture
def node() -> PaperNode:
    return PaperNode()
