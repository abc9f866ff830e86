"""
Rare troubles by topic: each module has a tuple `TROUBLES`, gathered here.

Every rare trouble is drawn from a stream of its own (see rare_trouble.py), so that a new one
changes no seed that does not draw it.
"""

from __future__ import annotations

from trials.simulation.rare_trouble import RareTrouble
from trials.troubles import (
    clocks,
    cut_resets,
    descriptors,
    forced_promotions,
    forged_bodies,
    full_disks,
    growth,
    half_filled_logs,
    half_open_links,
    hand_overs,
    hanging_disks,
    heard_since_asked,
    housekeeping,
    init_systems,
    joined_behind,
    limits,
    long_outages,
    long_sleeps,
    lost_ends,
    lost_promotions,
    membership,
    moves,
    narrow_links,
    other_copies,
    policies,
    promoted_together,
    queue_operators,
    refused_removals,
    returns,
    rot_alone,
    sealing,
    shut_out_together,
    sole_consumers,
    strangers,
    taken_back,
    taken_in_twice,
    trimmed_rot,
    vanished_files,
    wavering,
    wrong_lists,
)

_ALL: tuple[RareTrouble, ...] = (
    *clocks.TROUBLES,
    *cut_resets.TROUBLES,
    *descriptors.TROUBLES,
    *forced_promotions.TROUBLES,
    *forged_bodies.TROUBLES,
    *full_disks.TROUBLES,
    *growth.TROUBLES,
    *half_filled_logs.TROUBLES,
    *half_open_links.TROUBLES,
    *hand_overs.TROUBLES,
    *hanging_disks.TROUBLES,
    *heard_since_asked.TROUBLES,
    *housekeeping.TROUBLES,
    *init_systems.TROUBLES,
    *joined_behind.TROUBLES,
    *limits.TROUBLES,
    *long_outages.TROUBLES,
    *long_sleeps.TROUBLES,
    *lost_ends.TROUBLES,
    *lost_promotions.TROUBLES,
    *membership.TROUBLES,
    *moves.TROUBLES,
    *narrow_links.TROUBLES,
    *other_copies.TROUBLES,
    *policies.TROUBLES,
    *promoted_together.TROUBLES,
    *queue_operators.TROUBLES,
    *refused_removals.TROUBLES,
    *returns.TROUBLES,
    *rot_alone.TROUBLES,
    *sealing.TROUBLES,
    *shut_out_together.TROUBLES,
    *sole_consumers.TROUBLES,
    *strangers.TROUBLES,
    *taken_back.TROUBLES,
    *taken_in_twice.TROUBLES,
    *trimmed_rot.TROUBLES,
    *vanished_files.TROUBLES,
    *wavering.TROUBLES,
    *wrong_lists.TROUBLES,
)
RARE: dict[str, RareTrouble] = {trouble.name: trouble for trouble in _ALL}
"""All of them, by name; those without a chance only in plans that are made for them."""
DRAWN: tuple[str, ...] = tuple(name for name, trouble in RARE.items() if trouble.chance)
"""Those that seeds have by themselves."""
