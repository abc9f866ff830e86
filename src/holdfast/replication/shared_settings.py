"""
What all members must be told alike, and what is said where two of them were not.

Each process has these from its own command line. A node tells its own in its hello; whoever reads
it compares. Some differences would break what is promised: the commit rule that an operator asked
for, a lease that ends before anybody elects another, files that are equal byte for byte. They make
no link. Others only deserve a warning. Pure.

Invariants:
    What a peer does not tell, as older versions do not, is no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.replication.settings import ReplicationSettings

REFUSED = {
    "copies": "what a confirmed message is worth would depend on who leads",
    "sites": "what a confirmed message is worth would depend on who leads",
    "election_seconds_min": "a leader could go on for longer than the others wait for it",
    "segment": "the files of the log would differ",
}
"""By the name of the setting: why two nodes that differ in it make no link."""
WARNED = ("heartbeat_seconds", "election_seconds_max")
"""Differences that cost time at most."""


def shared_settings(settings: ReplicationSettings, segment_bytes: int) -> dict[str, float]:
    """What a node tells of itself, by the names that operators use; copies 0 is the default."""
    return {
        "copies": settings.copies,
        "sites": settings.sites,
        "segment": segment_bytes,
        "heartbeat_seconds": settings.heartbeat_seconds,
        "election_seconds_min": settings.election_seconds_min,
        "election_seconds_max": settings.election_seconds_max,
    }


def refused_difference(
    name: str, own: Mapping[str, float], peer: str, theirs: Mapping[str, float]
) -> str:
    """Why the two must not be linked, in one sentence; empty if nothing is in the way."""
    for setting, value, other in _differences(own, theirs):
        if setting in REFUSED:
            return (
                f"{_told(setting, name, value, peer, other)}: {REFUSED[setting]};"
                f" start both with the same value"
            )
    return ""


def warned_differences(
    name: str, own: Mapping[str, float], peer: str, theirs: Mapping[str, float]
) -> list[str]:
    """What an operator should know of the differences that are borne, a sentence each."""
    return [
        f"{_told(setting, name, value, peer, other)}: give all members the same value"
        for setting, value, other in _differences(own, theirs)
        if setting in WARNED
    ]


def _differences(
    own: Mapping[str, float], theirs: Mapping[str, float]
) -> Iterator[tuple[str, float, float]]:
    for setting, value in own.items():
        other = theirs.get(setting, value)
        if other != value:
            yield setting, value, other


def _told(setting: str, name: str, value: float, peer: str, other: float) -> str:
    return f"{setting} is {_text(setting, value)} on {name} and {_text(setting, other)} on {peer}"


def _text(setting: str, value: float) -> str:
    if setting == "copies" and not value:
        return "not given"
    return f"{value:,}"
