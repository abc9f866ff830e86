"""
What operators may ask of one node: the questions and changes behind `admin.operations`.

Questions are answered from memory. A change goes the way of everything that must last: a record,
or an entry of the members, and the answer when that is committed.

Invariants:
    Nobody is told that a change is made before it is committed.
    Nothing is removed while a leader before this one may still deliver it.

Called on the node's loop. Cancelling a change stops the wait for it, not the change.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from holdfast.admin.message_requests import MessageRequest, MessageStep
from holdfast.admin.policy_status import PoliciesStatus, PolicyValue
from holdfast.admin.status import (
    ConnectionStatus,
    HoldRequest,
    HoldStatus,
    LogPosition,
    LogSlice,
    MemberKind,
    NodeStatus,
    QueueDepth,
    QueueStatus,
    SegmentStatus,
)
from holdfast.admin.subscription_status import SubscriptionStatus
from holdfast.config.store_url import hidden
from holdfast.errors import DestinationError, NotLeaderError, QuorumLostError
from holdfast.model.destination import Kind
from holdfast.model.policy_option import Value
from holdfast.model.records import HoldRecord
from holdfast.model.wildcards import Pattern
from holdfast.replication.membership import Member
from holdfast.replication.promotion import LogEnd
from holdfast.server.audit_trail import AuditTrail, Notebook
from holdfast.server.leased_group import LeasedGroup
from holdfast.server.log_access import hold_record, hold_statuses, log_position, log_slice
from holdfast.server.message_steps import MessageSteps
from holdfast.server.mirrors import change_mirror
from holdfast.server.parts import Parts
from holdfast.server.policies import policies_status, policy_values
from holdfast.server.requests import OperatorReply
from holdfast.server.segment_digests import SegmentDigests
from holdfast.server.several_databases import change_database
from holdfast.server.status import (
    connection_statuses,
    node_status,
    queue_depths,
    queue_names,
    queue_statuses,
)
from holdfast.server.subscription_status import (
    end_subscription,
    subscription_depths,
    subscription_keys,
    subscription_statuses,
)
from holdfast.server.user_administration import UserAdministration
from holdfast.server.waiting import wait_until

Answer = TypeVar("Answer")

Deed = tuple[str, str]
"""What is done, and to what, as it is noted."""


class Administration:
    """One node, as its operators may ask it."""

    __slots__ = (
        "_broker",
        "_conductor",
        "_digests",
        "_driver",
        "_message_steps",
        "_parts",
        "_trail",
        "_wait_seconds",
        "users",
    )

    def __init__(self, parts: Parts, notebook: Notebook | None = None) -> None:
        """
        Take one node.

        Args:
            parts: The node.
            notebook: Where is written who did what, beside the log.
        """
        self._parts = parts
        self._trail = AuditTrail(parts.broker, parts.clock, notebook)
        self.users = UserAdministration(
            parts, self._trail, stored=self._stored, require_serving=self._require_serving
        )
        """Users and grants."""
        self._broker = parts.broker
        self._conductor = parts.conductor
        self._driver = parts.driver
        self._digests = SegmentDigests(parts.journal, parts.clock)
        self._wait_seconds = parts.conductor.settings.operator_wait_seconds
        self._message_steps = MessageSteps(parts, self._stored, self._trail)

    def close(self) -> None:
        """End what reads segments for their digests."""
        self._digests.close()

    def status(self) -> NodeStatus:
        """Who it is and how far its log goes."""
        return node_status(self._parts)

    def has_queue(self, name: str) -> bool:
        """Whether there is such a queue."""
        return self._broker.destinations.has_queue(name)

    def queue_names(self) -> list[str]:
        """The names of its queues, in no order."""
        return queue_names(self._parts)

    def queue_depths(self) -> Iterator[QueueDepth | None]:
        """What is summed over its queues; None after a step of a look that takes long."""
        return queue_depths(self._parts)

    def queues(self, names: Iterable[str]) -> Iterator[QueueStatus | None]:
        """The queues of these names, each as it is when it is asked for; None as above."""
        return queue_statuses(self._parts, names)

    def connections(self) -> Iterator[ConnectionStatus]:
        """The clients connected to it."""
        return connection_statuses(self._parts)

    async def segments(
        self, after: int = 0, seconds_max: float | None = None
    ) -> tuple[list[SegmentStatus], int]:
        """The files of its log, with the digests of the sealed ones; see there."""
        return await self._digests.segments(after, seconds_max)

    def log_position(self, from_index: int, bytes_max: int, *, with_bases: bool) -> LogPosition:
        """What it can give of the log to readers."""
        return log_position(self._parts, from_index, bytes_max, with_bases=with_bases)

    def log_slice(self, from_index: int, bytes_max: int, through: int) -> LogSlice:
        """Where committed entries from an index on are."""
        return log_slice(self._parts, from_index, bytes_max, through)

    async def keep_log(self, name: str, wanted: HoldRequest) -> HoldStatus:
        """Set a hold; returns once that is committed."""
        self._require_serving()
        record = hold_record(self._parts, name, wanted)
        # Readers go on with a hold all the time: who set it first is noted.
        is_new = name not in self._broker.state.holds
        deed = ("set hold", name) if is_new else None
        await self._stored(lambda reply: self._broker.keep_log(record, reply, b""), deed)
        hold = self._broker.state.holds.get(name)
        if hold is None:  # Of the same moment as this; what is told is what is.
            raise DestinationError(f"there is no hold {name} any more: somebody ended it just now")
        return hold_statuses(self._parts, [hold])[0]

    async def release_log(self, name: str) -> None:
        """End a hold; returns once that is committed."""
        self._require_serving()
        record = HoldRecord(name, 0, 0)
        deed = "end hold", name
        await self._stored(lambda reply: self._broker.keep_log(record, reply, b""), deed)

    def policies(self) -> PoliciesStatus:
        """All that its log says of destinations, by pattern."""
        return policies_status(self._broker)

    def policy_of(self, kind: Kind, name: str) -> list[PolicyValue]:
        """What every key is for one destination, and whose word that is."""
        return policy_values(self._broker, kind, name)

    async def say_policy(self, pattern: Pattern, values: Mapping[str, Value]) -> dict[str, Value]:
        """Say something of a pattern's destinations; returns all that is, once it is committed."""
        self._require_serving()
        changes = self._broker.policy_changes
        await _in_turns(changes.judge(pattern, values))
        self._require_serving()
        said = " ".join(f"{name}={value}" for name, value in values.items())
        return await self._stored(
            lambda reply: changes.say(pattern, values, reply, b""),
            ("set policy", f"{pattern} {said}"),
        )

    async def take_back_policy(self, pattern: Pattern, names: Collection[str]) -> dict[str, Value]:
        """Take some of it back, or all; returns what is left, once that is committed."""
        self._require_serving()
        changes = self._broker.policy_changes
        await _in_turns(changes.judge_back(pattern, names))
        self._require_serving()
        return await self._stored(
            lambda reply: changes.take_back(pattern, names, reply, b""),
            ("unset policy", " ".join([str(pattern), *names])),
        )

    @property
    def trail(self) -> AuditTrail:
        """Where is noted who does what."""
        return self._trail

    async def transfer(self, to: str | None) -> str:
        """Hand leadership over; gives the new leader's name."""
        driver = self._driver
        target = driver.transfer(to)
        self._conductor.schedule()
        stays = {self._parts.config.name, None}
        if not await self._holds_in_time(lambda: driver.leader not in stays):
            raise QuorumLostError(f"{target} did not take over in time; this node leads on")
        self._trail.tell("transfer leadership", driver.leader or target)
        return driver.leader or target

    async def add_member(self, name: str, address: str, *, kind: MemberKind, site: str) -> None:
        """Admit a member; returns when that is committed."""
        await self._committed(self._driver.add_member(Member(name, address, kind, site)))
        self._trail.tell("add member", f"{name} {address} {kind}")

    async def remove_member(self, name: str) -> None:
        """Remove a member; returns when that is committed."""
        await self._committed(self._driver.remove_member(name))
        self._trail.tell("remove member", name)

    async def change_mirror(self, action: str, directory: str, by: str) -> None:
        """Disable, enable or replace one of this node's own directories, or of its databases."""
        several = self._driver.several if isinstance(self._driver, LeasedGroup) else None
        if several is not None:
            await asyncio.to_thread(change_database, several.caretaker, action, directory, by)
        else:
            await asyncio.to_thread(change_mirror, self._parts.caretaker, action, directory, by)
        self._trail.tell(f"{action} mirror", " ".join(map(hidden, (directory, by))).strip())

    async def promote(self, name: str) -> None:
        """Make a learner a voter; returns when that is committed."""
        await self._committed(self._driver.promote(name))
        self._trail.tell("promote member", name)

    async def promote_force(
        self, companions: Sequence[LogEnd], *, is_incomplete_accepted: bool
    ) -> None:
        """Make this node the only voter of a new generation, that its companions follow."""
        self._driver.promote_force(
            companions,
            is_incomplete_accepted=is_incomplete_accepted,
            wall_microseconds=self._parts.clock.wall_microseconds(),
        )
        self._conductor.schedule()
        self._trail.tell("promote by force", self._parts.config.name)
        if not await self._holds_in_time(lambda: self._conductor.role.is_serving):
            missing = ", ".join(self._driver.status().awaited)
            raise QuorumLostError(
                f"{missing} did not follow in time: the promotion goes on as soon as that happens;"
                f" or repeat it with those that answer"
                if missing
                else "the promotion did not complete in time; see the log"
            )

    async def purge(self, queue: str) -> int:
        """Remove all messages of a queue; returns how many."""
        await self._await_lease()
        return await self._stored(
            lambda reply: self._broker.purge(queue, reply, b""), ("purge queue", queue)
        )

    async def delete(self, queue: str) -> int:
        """Remove a queue and its messages; returns how many."""
        await self._await_lease()
        return await self._stored(
            lambda reply: self._broker.delete(queue, reply, b""), ("delete queue", queue)
        )

    async def messages(self, wanted: MessageRequest) -> MessageStep:
        """Do one step of something with a queue's messages; returns once it is committed."""
        await self._await_lease()
        return await self._message_steps.step(wanted)

    def subscription_keys(self) -> Iterator[str]:
        """What its durable subscriptions are known by, in no order."""
        return subscription_keys(self._broker)

    def subscription_depths(self) -> Iterator[QueueDepth | None]:
        """What is summed over its durable subscriptions, each as it is when it is asked for."""
        return subscription_depths(self._broker)

    def subscriptions(self, keys: Iterable[str]) -> Iterator[SubscriptionStatus | None]:
        """The durable subscriptions of these keys, each as it is when it is asked for."""
        return subscription_statuses(self._broker, keys)

    async def end_subscription(self, client_id: str, name: str) -> int:
        """End one; returns what it was not given."""
        await self._await_lease()
        return await self._stored(
            lambda reply: end_subscription(self._broker, client_id, name, reply, b""),
            ("end subscription", f"{client_id} {name}"),
        )

    async def _stored(
        self, change: Callable[[OperatorReply], Answer], deed: Deed | None = None
    ) -> Answer:
        """
        Ask the broker for a change; returns what it answered, once that is committed.

        Who asked for it, and what it is by `deed`, is stored in the same entry.
        """
        reply = OperatorReply()
        answer = change(reply)
        if deed is not None:
            self._trail.write(*deed)
        self._conductor.schedule()
        await asyncio.wait_for(reply.done, self._wait_seconds)
        if deed is not None:
            self._trail.tell(*deed)
        return answer

    async def _committed(self, index: int) -> None:
        self._conductor.schedule()
        if not await self._holds_in_time(lambda: self._driver.commit_index >= index):
            raise QuorumLostError(f"entry {index:,} was not committed in time; see cluster status")

    async def _holds_in_time(self, condition: Callable[[], bool]) -> bool:
        clock = self._parts.clock
        return await wait_until(condition, clock, clock.monotonic() + self._wait_seconds)

    async def _await_lease(self) -> None:
        """Wait until no leader before this one may deliver: what is removed must not come after."""
        self._require_serving()
        role, context = self._conductor.role, self._parts.context
        await self._holds_in_time(lambda: not (role.is_serving and context.is_lease_awaited))
        self._require_serving()
        if context.is_lease_awaited:
            raise QuorumLostError("an earlier leader may deliver yet; try again")

    def _require_serving(self) -> None:
        if not self._conductor.role.is_serving:
            raise NotLeaderError(self._driver.leader)


async def _in_turns(steps: Iterator[None]) -> None:
    """Do something step by step; the loop does what else there is between them."""
    for _ in steps:
        await asyncio.sleep(0)
