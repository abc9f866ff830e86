"""
What a node's file says of destinations comes into the log while the node leads.

It does if the file's revision is higher than that of the last word of a file; so all leaders judge
alike, and a node with an older file changes nothing when it comes to lead. What a file of the same
revision says otherwise counts for nothing, and is told.

Invariants:
    A file is brought in at most once in a leadership, in one entry, and only where the log may
    hold policies.

Owned by the loop.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import structlog

from holdfast.broker.broker import Broker
from holdfast.broker.errands import IsSpent
from holdfast.errors import HoldfastError, LimitReachedError, PolicyError
from holdfast.model.policies import FilePolicies

log = structlog.get_logger("holdfast.server")


class PolicyFile:
    """What one node's file says, brought into the log while it leads."""

    __slots__ = ("_broker", "_file", "_is_done", "_judging")

    def __init__(self, broker: Broker, file: FilePolicies) -> None:
        self._broker = broker
        self._file = file
        self._is_done = not file.revision
        self._judging: Iterator[None] | None = None
        """Looks whether it can come into the log."""

    def step(self, *, is_leading: bool, is_spent: IsSpent = lambda: False) -> None:
        """Look whether there is something to bring in; costs next to nothing if not."""
        if self._is_done or not is_leading or not self._broker.policy_changes.may_be_made:
            return
        file, policies = self._file, self._broker.state.policies
        if file.revision > policies.revision and not self._is_judged(is_spent):
            return
        self._is_done = True
        if file.revision > policies.revision:
            self._adopt()
        elif file.revision < policies.revision:
            log.warning(
                "the policies of this node's file are older than those in the log, which count",
                file=file.revision,
                log=policies.revision,
            )
        elif self._differs():
            log.warning(
                "the policies of this node's file are not those that the log has of their revision:"
                " raise policies.revision to let them count",
                revision=file.revision,
            )

    def _is_judged(self, is_spent: IsSpent) -> bool:
        """Look on whether it can come into the log; whether it can."""
        if self._judging is None:
            self._judging = self._broker.policy_changes.judge_file(self._file)
        try:
            for _ in self._judging:
                if is_spent():
                    return False
        except PolicyError as error:
            self._refuse(error)
            return False
        self._judging = None
        return True

    def _refuse(self, error: HoldfastError) -> None:
        self._is_done = True
        log.warning("the policies of this node's file do not count", reason=str(error))

    def _adopt(self) -> None:
        try:
            self._broker.policy_changes.adopt(self._file)
        except (LimitReachedError, PolicyError) as error:
            self._refuse(error)
            return
        log.info(
            "the policies of this node's file count from now on",
            revision=self._file.revision,
            patterns=len(self._file.values),
        )

    def _differs(self) -> bool:
        said = {
            key.pattern: json.loads(record.values)
            for key, record in self._broker.state.policies.by_key.items()
            if key.is_of_file and key.pattern
        }
        return said != {pattern: dict(values) for pattern, values in self._file.values.items()}

    def stop(self) -> None:
        """The leadership is over: what was asked for may be lost."""
        self._is_done, self._judging = not self._file.revision, None
