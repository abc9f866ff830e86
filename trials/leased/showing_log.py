"""
A modelled medium that also shows something to people, as a database does.

What it shows is written under the fence of the log: `shown` keeps under which epoch each was.
"""

from __future__ import annotations

from holdfast.leases.contract import Outcome
from holdfast.leases.projection import Changes, MessageKey
from trials.leased.model_log import ModelLog


class ShowingLog(ModelLog):
    """One broker's connection to it."""

    def project(self, changes: Changes, seconds_max: float) -> Outcome:
        """Write what is shown, if the lease is still this broker's."""
        epoch, holder, end = self._epoch, self._holder, self.medium.end
        outcome: Outcome = self._ask(
            "project", seconds_max, lambda: self.medium.project(epoch, holder, end, changes)
        )
        return outcome

    def shown_keys(self, after: MessageKey, seconds_max: float) -> list[MessageKey]:
        """Read which messages have rows."""
        keys: list[MessageKey] = self._ask(
            "shown_keys", seconds_max, lambda: self.medium.shown_keys(after)
        )
        return keys
