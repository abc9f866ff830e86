"""
What a soak does and what it forgives; sizes in bytes, times in seconds.

The lengths of warm-up, fault interval and backlog follow the length of the run, so that a minute
shows the same things as an hour, only less surely. The limits are what a run of any length may
grow: a longer run therefore sees a smaller leak.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from holdfast.model.limits import MiB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """How much a measure may grow over a stretch of a run."""

    absolute: float
    share: float
    """Of the median: the larger of the two holds."""

    def growth_max(self, median: float) -> float:
        """Give the growth that is still flat."""
        return max(self.absolute, self.share * median)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What counts as flat."""

    rss_bytes: Limit = Limit(absolute=8 * MiB, share=0.06)
    fds: Limit = Limit(absolute=4, share=0.05)
    threads: Limit = Limit(absolute=6, share=0.0)
    """The loop's pool for checkpoints and digests fills up to six, one by one."""

    disk_bytes: Limit = Limit(absolute=12 * MiB, share=0.1)
    disk_files: Limit = Limit(absolute=4, share=0.1)
    spread_share: float = 0.75
    """A trend within this share of the measure's own ups and downs is none: a sawtooth of two
    periods shows half its height as growth, one of ten periods a tenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SoakSettings:
    """One run."""

    seconds: float = 1200.0
    topology: str = "three"
    seed: int = 1
    rate: float = 1.0
    """Factor on every rate of the traffic; 1.0 is about 550 messages per second."""

    segment_bytes: int = 0
    """Of the log: small, so that many are sealed and cleaned; 0 chooses by the length."""

    memory_bytes: int = 32 * MiB
    """For message bodies in each broker: small, so that the limit is reached early or never."""

    sample_seconds: float = 1.0
    progress_seconds: float = 10.0
    has_faults: bool = True
    fault_seconds: float = 0.0
    """Between faults on average; 0 chooses by the length of the run."""

    warm_up_seconds: float = 0.0
    """At the start of each stretch that is not judged; 0 chooses by the length of the run."""

    finish_seconds: float = 60.0
    limits: Limits = field(default_factory=Limits)

    @property
    def fault_interval(self) -> float:
        """Seconds between faults on average: about eight in a run, three minutes at most."""
        return self.fault_seconds or min(180.0, max(12.0, self.seconds / 8))

    @property
    def warm_up(self) -> float:
        """Seconds after a start or a change of role before anything is judged."""
        return self.warm_up_seconds or min(45.0, max(4.0, self.seconds / 12))

    @property
    def segment(self) -> int:
        """Bytes of a segment of the log."""
        return self.segment_bytes or (4 * MiB if self.seconds >= 600 else MiB)

    @property
    def judged_min(self) -> float:
        """Seconds that a stretch must last behind its warm-up to be judged."""
        return min(60.0, max(8.0, self.seconds / 10))

    @property
    def backlog_seconds(self) -> float:
        """How long the backlog grows before it is drained."""
        return min(40.0, max(5.0, self.seconds / 12))

    @property
    def shift_seconds(self) -> float:
        """How long one strict load lasts before the next takes over: its books are in memory."""
        return min(120.0, max(10.0, self.seconds / 4))

    @property
    def old_message_seconds(self) -> float:
        """How long one message is held unacknowledged while the log moves on beneath it."""
        return min(600.0, max(10.0, self.seconds / 3))
