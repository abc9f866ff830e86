"""
What an operator may ask of a node: the one list behind the HTTP interface and the command line.

Questions are answered by any node for itself. Changes are the leader's to make; asked of another
node they raise NotLeaderError, and the HTTP interface passes them on to the leader. The exception
is promotion by force: it is for the case that there is no leader any more, and runs on the node
that is to go on.

Invariants:
    Nothing here decides how a change is made: that is the node's, through the replicated log.
    A forced promotion is never made without the operator's word that the shut-out members are dead.

Called on the node's loop. Cancelling a change stops the wait for it, not the change.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from holdfast.admin.endpoint import NO_FILES, Files
from holdfast.admin.health import Readiness, readiness
from holdfast.admin.leader_questions import Addressee
from holdfast.admin.message_requests import MessageRequest, MessageStep
from holdfast.admin.policy_status import PoliciesStatus, PolicyValue
from holdfast.admin.promotion import PromotionReport, promotion_report
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
from holdfast.admin.user_administration import UserAdministration
from holdfast.errors import DestinationError, MembershipError, NotLeaderError
from holdfast.model.destination import Kind
from holdfast.model.policy_option import Value
from holdfast.model.wildcards import Pattern
from holdfast.replication.promotion import LogEnd


class Node(Protocol):
    """What the operations need of a node. All of it is called on the node's loop."""

    @property
    def users(self) -> UserAdministration:
        """Its users and grants."""
        ...

    def status(self) -> NodeStatus:
        """Who it is and how far its log goes. Reads no disk."""
        ...

    def has_queue(self, name: str) -> bool:
        """Whether there is such a queue."""
        ...

    def queue_names(self) -> list[str]:
        """The names of its queues, in no order."""
        ...

    def queue_depths(self) -> Iterable[QueueDepth | None]:
        """What is summed over its queues, looked at one by one; None: a step of a long look."""
        ...

    def queues(self, names: Iterable[str]) -> Iterable[QueueStatus | None]:
        """The queues of these names; only the leader knows of consumers and deliveries."""
        ...

    def connections(self) -> Iterable[ConnectionStatus]:
        """The clients connected to it, looked at one by one."""
        ...

    async def segments(
        self, after: int, seconds_max: float | None
    ) -> tuple[list[SegmentStatus], int]:
        """The files of its log, with the digests of the sealed ones; reads them off the loop."""
        ...

    def log_position(self, from_index: int, bytes_max: int, *, with_bases: bool) -> LogPosition:
        """What it can give of the log; if `from_index` is not 0, how far so many bytes reach."""
        ...

    def log_slice(self, from_index: int, bytes_max: int, through: int) -> LogSlice:
        """Where committed entries from an index on are; at least one, if there is one."""
        ...

    async def keep_log(self, name: str, wanted: HoldRequest) -> HoldStatus:
        """Set a hold; returns once that is committed."""
        ...

    async def release_log(self, name: str) -> None:
        """End a hold; returns once that is committed."""
        ...

    async def transfer(self, to: str | None) -> str:
        """Hand leadership to `to`, or to the best follower; returns the new leader's name."""
        ...

    async def add_member(self, name: str, address: str, *, kind: MemberKind, site: str) -> None:
        """Admit a member; returns when the change is committed."""
        ...

    async def remove_member(self, name: str) -> None:
        """Remove a member for good; returns when the change is committed."""
        ...

    async def promote(self, name: str) -> None:
        """Make a learner a voter; returns when the change is committed."""
        ...

    async def change_mirror(self, action: str, directory: str, by: str) -> None:
        """Disable, enable or replace one of this node's own directories."""
        ...

    async def promote_force(
        self, companions: Sequence[LogEnd], *, is_incomplete_accepted: bool
    ) -> None:
        """Make this node the only voter of a new generation; only companions are not shut out."""
        ...

    def policies(self) -> PoliciesStatus:
        """All that its log says of destinations, by pattern."""
        ...

    def policy_of(self, kind: Kind, name: str) -> list[PolicyValue]:
        """What every key is for one destination, and whose word that is."""
        ...

    async def say_policy(self, pattern: Pattern, values: Mapping[str, Value]) -> dict[str, Value]:
        """Say something of a pattern's destinations; returns all that is, once it is committed."""
        ...

    async def take_back_policy(self, pattern: Pattern, names: Collection[str]) -> dict[str, Value]:
        """Take some of it back, or all; returns what is left, once that is committed."""
        ...

    async def purge(self, queue: str) -> int:
        """Remove all messages of a queue; returns how many, once that is committed."""
        ...

    async def delete(self, queue: str) -> int:
        """Remove a queue and its messages; returns how many, once that is committed."""
        ...

    async def messages(self, wanted: MessageRequest) -> MessageStep:
        """Do one step of something with a queue's messages; returns once it is committed."""
        ...

    def subscription_keys(self) -> Iterable[str]:
        """What its durable subscriptions are known by, in no order; see `key_text`."""
        ...

    def subscription_depths(self) -> Iterable[QueueDepth | None]:
        """What is summed over its durable subscriptions, looked at one by one."""

    def subscriptions(self, keys: Iterable[str]) -> Iterable[SubscriptionStatus | None]:
        """The durable subscriptions of these keys that are there, looked at one by one."""
        ...

    async def end_subscription(self, client_id: str, name: str) -> int:
        """End one; returns what it was not given, once that is committed."""
        ...


class Operations:
    """The questions and changes of one node."""

    __slots__ = ("_node", "files", "secret")

    def __init__(self, node: Node, *, secret: bytes = b"", files: Files = NO_FILES) -> None:
        self._node = node
        self.secret = secret
        self.files = files
        """What it believes and shows when it asks another node by TLS."""

    @property
    def users(self) -> UserAdministration:
        """Users and grants, as the node has and changes them."""
        return self._node.users

    def status(self) -> NodeStatus:
        """The node, its members and its store."""
        return self._node.status()

    def readiness(self) -> Readiness:
        """Whether the node does its part in the cluster."""
        return readiness(self._node.status())

    def queue_names(self) -> list[str]:
        """The names of the node's queues, in no order."""
        return self._node.queue_names()

    def queue_depths(self) -> Iterable[QueueDepth | None]:
        """What is summed over the node's queues; each is looked at when it is asked for."""
        return self._node.queue_depths()

    def queues(self, names: Iterable[str]) -> Iterable[QueueStatus | None]:
        """
        The queues of these names that are there; each is looked at when it is asked for.

        None is a step of a look that takes long.
        """
        return self._node.queues(names)

    def connections(self) -> Iterable[ConnectionStatus]:
        """The clients connected to this node."""
        return self._node.connections()

    async def segments(
        self, after: int = 0, seconds_max: float | None = None
    ) -> tuple[list[SegmentStatus], int]:
        """The files of the node's log, oldest first, and behind which to go on; 0: that is all."""
        return await self._node.segments(after, seconds_max)

    def log_position(
        self, from_index: int = 0, bytes_max: int = 0, *, with_bases: bool = True
    ) -> LogPosition:
        """
        What this node can give of the log; where its segments begin, if that is wanted.

        Raises:
            DestinationError: This node keeps no messages.
            RecordNotFoundError: `from_index` is not in the log any more.
        """
        return self._node.log_position(from_index, bytes_max, with_bases=with_bases)

    def log_slice(self, from_index: int, bytes_max: int, through: int) -> LogSlice:
        """
        Where committed entries from an index on are.

        Raises:
            DestinationError: This node keeps no messages.
            RecordNotFoundError: `from_index` is not in the log any more.
        """
        return self._node.log_slice(from_index, bytes_max, through)

    async def keep_log(self, name: str, wanted: HoldRequest) -> HoldStatus:
        """
        Keep the log from an index on for a named reader.

        Raises:
            NotLeaderError: This node does not lead.
            LimitReachedError: It asks for more than is allowed, or there are too many holds.
            RecordNotFoundError: What is to be kept is not in the log any more.
            DestinationError: Somebody ended the hold at the same moment.
        """
        self._require_leader()
        return await self._node.keep_log(name, wanted)

    async def release_log(self, name: str) -> None:
        """
        End a hold.

        Raises:
            NotLeaderError: This node does not lead.
            DestinationError: There is no such hold.
        """
        status = self._require_leader()
        if all(hold.name != name for hold in status.holds):
            raise DestinationError(f"there is no hold {name}")
        await self._node.release_log(name)

    def leader_admin(self) -> Addressee | None:
        """Where the leader's admin port is, or None when that is not known."""
        status = self._node.status()
        member = status.member(status.leader)
        return Addressee(member.admin, member.life) if member and member.admin else None

    async def transfer(self, to: str | None) -> str:
        """
        Hand leadership to a member, or to the one that is furthest if `to` is None.

        Raises:
            NotLeaderError: This node does not lead.
            MembershipError: That member cannot lead, and why.
            QuorumLostError: Nobody took over in time.
        """
        status = self._require_leader()
        if to is not None:
            self._require_member(status, to)
        return await self._node.transfer(to)

    async def add_member(self, name: str, address: str, *, kind: MemberKind, site: str) -> None:
        """
        Admit a member that is not one yet.

        Raises:
            NotLeaderError: This node does not lead.
            MembershipError: There is such a member, or another change is under way.
        """
        status = self._require_leader()
        if status.member(name) is not None:
            raise MembershipError(f"{name} is a member already; remove it first")
        await self._node.add_member(name, address, kind=kind, site=site)

    async def remove_member(self, name: str) -> None:
        """
        Remove a member for good.

        Raises:
            NotLeaderError: This node does not lead.
            MembershipError: There is no such member, or another change is under way.
        """
        self._require_member(self._require_leader(), name)
        await self._node.remove_member(name)

    async def change_mirror(self, action: str, directory: str, by: str) -> None:
        """
        Disable, enable or replace one of this node's own directories; of no other node's.

        Raises:
            StoreError: It is none, or may not be changed so.
        """
        await self._node.change_mirror(action, directory, by)

    async def promote(self, name: str) -> None:
        """
        Make a learner a voter.

        Raises:
            NotLeaderError: This node does not lead.
            MembershipError: It is no learner, or another change is under way.
        """
        self._require_member(self._require_leader(), name)
        await self._node.promote(name)

    def promotion_report(self, name: str, companions: Sequence[LogEnd] = ()) -> PromotionReport:
        """
        What this node may lack if it goes on, alone or with companions.

        Raises:
            MembershipError: `name` is another node: force is used on the node that goes on.
        """
        status = self._node.status()
        if name != status.name:
            member = status.member(name)
            where = f" at {member.admin}" if member is not None and member.admin else ""
            raise MembershipError(
                f"this is {status.name}; promotion by force is asked of {name} itself{where}"
            )
        return promotion_report(status, companions)

    async def promote_force(
        self,
        name: str,
        companions: Sequence[LogEnd] = (),
        *,
        peers_are_dead: bool,
        is_incomplete_accepted: bool = False,
    ) -> PromotionReport:
        """
        Go on with this node, in a new generation that fences all others but its companions.

        The companions, told by how far their logs go, follow and become voters by themselves.

        Raises:
            MembershipError: `name` is another node, there is a leader, or the operator has not
                said that the others are dead; or its log is being filled anew and is not full, and
                the operator has not said that this is accepted; or a companion cannot follow.
            QuorumLostError: A companion did not follow in time.
        """
        report = self.promotion_report(name, companions)
        if report.leader is not None:
            raise MembershipError(
                f"{report.leader} leads; use force only when there is no leader any more"
            )
        if not peers_are_dead:
            raise MembershipError(
                f"say that {', '.join(report.shut_out) or 'all others'} are dead to go on;"
                f" {report.may_lack}"
            )
        if report.incomplete and not is_incomplete_accepted:
            raise MembershipError(report.may_lack)
        await self._node.promote_force(
            tuple(companions), is_incomplete_accepted=is_incomplete_accepted
        )
        return report

    def policies(self) -> PoliciesStatus:
        """All that the node's log says of destinations, by pattern."""
        return self._node.policies()

    def policy_of(self, kind: Kind, name: str) -> list[PolicyValue]:
        """What every key is for one destination, and whose word that is."""
        return self._node.policy_of(kind, name)

    async def say_policy(self, pattern: Pattern, values: Mapping[str, Value]) -> dict[str, Value]:
        """
        Say something more of the destinations that match a pattern; give all that is said.

        Raises:
            NotLeaderError: This node does not lead.
            LevelNotReachedError: Not every member could read it.
            LimitReachedError: There are too many patterns.
        """
        self._require_leader()
        return await self._node.say_policy(pattern, values)

    async def take_back_policy(self, pattern: Pattern, names: Collection[str]) -> dict[str, Value]:
        """
        Take back some of what was said at run time, or without names all; give what is left.

        Raises:
            NotLeaderError: This node does not lead.
            LevelNotReachedError: Nothing can have been said.
            PolicyError: It was not said.
        """
        self._require_leader()
        return await self._node.take_back_policy(pattern, names)

    async def purge(self, queue: str) -> int:
        """
        Remove all messages of a queue and return how many.

        Raises:
            NotLeaderError: This node does not lead.
            DestinationError: There is no such queue.
        """
        self._require_leader()
        self._require_queue(queue)
        return await self._node.purge(queue)

    async def delete(self, queue: str) -> int:
        """
        Remove a queue with its messages and return how many.

        Raises:
            NotLeaderError: This node does not lead.
            DestinationError: There is no such queue, or it has consumers.
        """
        self._require_leader()
        self._require_queue(queue)
        return await self._node.delete(queue)

    async def messages(self, wanted: MessageRequest) -> MessageStep:
        """
        Do one step of something with a queue's messages.

        Raises:
            NotLeaderError: This node does not lead.
            DestinationError: There is no such queue, or no target of such a name can be.
            SelectorError: The selector cannot be read.
            LevelNotReachedError: Not every member could read what moves messages.
        """
        self._require_leader()
        self._require_queue(wanted.queue)
        return await self._node.messages(wanted)

    def subscription_keys(self) -> Iterable[str]:
        """What the node's durable subscriptions are known by, in no order."""
        return self._node.subscription_keys()

    def subscription_depths(self) -> Iterable[QueueDepth | None]:
        """What is summed over the node's durable subscriptions."""
        return self._node.subscription_depths()

    def subscriptions(self, keys: Iterable[str]) -> Iterable[SubscriptionStatus | None]:
        """Those of these keys that are there; each is looked at when it is asked for."""
        return self._node.subscriptions(keys)

    async def end_subscription(self, client_id: str, name: str) -> int:
        """
        End a durable subscription and return how many messages it was not given.

        Raises:
            NotLeaderError: This node does not lead.
            DestinationError: There is no such subscription, or somebody consumes from it.
        """
        self._require_leader()
        return await self._node.end_subscription(client_id, name)

    def _require_leader(self) -> NodeStatus:
        status = self._node.status()
        if status.role != "leader":
            raise NotLeaderError(status.leader)
        return status

    def _require_queue(self, name: str) -> None:
        if not self._node.has_queue(name):
            raise DestinationError(f"there is no queue {name}")

    @staticmethod
    def _require_member(status: NodeStatus, name: str) -> None:
        if status.member(name) is None:
            known = ", ".join(member.name for member in status.members) or "none"
            raise MembershipError(f"{name} is not a member; members are: {known}")
