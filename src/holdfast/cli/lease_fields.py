"""
The lease of a shared log in a table for people: what keeps the log, who may write it.

What is wrong with the store has a line of its own each, and nothing has one while all is well.
"""

from __future__ import annotations

from holdfast.admin.lease_status import ElectorStatus, LeaseStatus
from holdfast.cli.output import format_seconds


def lease_fields(lease: LeaseStatus) -> list[tuple[str, object]]:
    """Give what keeps the log, who may write it, and what is wrong with it."""
    return [
        ("store", f"{lease.kind}, {lease.place}"),
        ("lease", _lease(lease)),
        *[("copy", f"{it.id} {it.state}, {it.place}") for it in lease.copies],
        *([("store trouble", lease.trouble)] if lease.trouble else []),
        *([("store refuses", lease.refusal)] if lease.refusal else []),
        *[("store warning", it) for it in lease.warnings],
        *([] if lease.elector is None else _elector(lease.elector)),
    ]


def _elector(elector: ElectorStatus) -> list[tuple[str, object]]:
    elected = "elects nobody" if elector.elected is None else f"elects {elector.elected}"
    waiting = f" of {', '.join(elector.line)}" if len(elector.line) > 1 else ""
    known = "" if elector.heard_seconds is None else f", {elected}{waiting}"
    count = elector.strangers
    return [
        ("elector", f"{elector.kind}, {elector.place}{known}"),
        *([("elector trouble", elector.trouble)] if elector.trouble else []),
        *([("elector warning", f"{count} entries there are no broker's")] if count else []),
    ]


def _lease(lease: LeaseStatus) -> str:
    length = f"of {format_seconds(lease.lease_seconds)}"
    if lease.held_seconds is not None:
        left = f"{lease.left_seconds:.1f} s left"
        return f"{length}, held here for {format_seconds(lease.held_seconds)}, {left}"
    if lease.holder is None:
        return f"{length}, held by nobody"
    return f"{length}, held by {lease.holder}, silent for {lease.silent_seconds:.1f} s"
