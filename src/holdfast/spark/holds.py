"""
Keeping the log of a cluster for a reader, under a name.

The cluster ends a hold of which it has not heard for as long as it was asked for. So who reads
renews it now and then, also while there is nothing new to take.

Blocking. Belongs to one thread.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.spark.log_client import RemoteLog
from holdfast.spark.options import EXPIRY_SECONDS_DEFAULT

RENEWALS_PER_EXPIRY: Final = 4
"""A hold is renewed after a quarter of what it may be silent for."""


@dataclass(slots=True)
class Hold:
    """A named hold on a cluster's log, set when it is first moved."""

    log: RemoteLog
    name: str
    bytes_max: int | None = None
    """None: what the cluster keeps for who does not say."""

    expiry_seconds: int = EXPIRY_SECONDS_DEFAULT
    _renewed_at: float = field(default=float("-inf"), init=False)

    def move(self, index: int, *, or_first: bool = False) -> int:
        """
        Keep the log from an entry on; with `or_first` from where it begins, if that is later.

        Gives from where on it is kept.

        Raises:
            RecordNotFoundError: The log does not go back so far any more.
            LimitReachedError: The cluster does not keep so much, or for so many.
            LinkError: No node answers.
        """
        return self._ask({"index": index, "or_first": or_first})

    def renew_if_due(self, index: int) -> None:
        """
        Say that the reader is there, after a while; one that has ended begins again at an entry.

        Raises:
            RecordNotFoundError: It has ended, and the log does not go back so far any more.
            LinkError: No node answers.
        """
        if time.monotonic() - self._renewed_at > self.expiry_seconds / RENEWALS_PER_EXPIRY:
            self._ask({"index": index, "only_renews": True})

    def _ask(self, body: dict[str, Any]) -> int:
        body |= {"expiry_seconds": self.expiry_seconds}
        if self.bytes_max is not None:
            body |= {"bytes_max": self.bytes_max}
        answer = self.log.ask("POST", f"/holds/{self.name}", body)
        self._renewed_at = time.monotonic()
        return int(answer["index"])
