"""
The names of the loop's attributes, as its slots.

CPython 3.11 keeps up to 30 attributes in the object itself. Beyond that, and without slots, they go
into a mapping, and calls of the object's methods are not specialized any more.
"""

from __future__ import annotations

from typing import Final

LOOP_ATTRIBUTES: Final = (
    "apply_again_at",
    "applying",
    "broker",
    "budget",
    "chores",
    "cleaner",
    "clients",
    "clock",
    "collect_cycles",
    "confirming",
    "connections",
    "containment",
    "context",
    "counters",
    "departures",
    "flushing",
    "format_gate",
    "policy_file",
    "has_failed",
    "heart_beats",
    "heart_beats_at",
    "held_memory",
    "is_behind",
    "is_scheduled",
    "is_within_entry",
    "loop",
    "on_damage",
    "on_failure",
    "record_step_count",
    "refusal_at",
    "rejudging",
    "releasing",
    "rest",
    "resuming",
    "role",
    "sealer",
    "settings",
    "slow_consumers",
    "store",
    "turned_at",
    "waking",
    "withheld",
    "__dict__",
    "__weakref__",
)
