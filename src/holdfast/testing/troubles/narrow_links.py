"""
Links that carry a message only in pieces, because it is larger than any buffer on its way.

The two ends hear of each piece, as they do on a real link; the message is there with the last one.
Now and then a link stalls in the middle of a message, for less or longer than its ends wait for a
sign of life. Counted for each message that came in pieces, and for each stall.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.testing.pieces import IN_PIECES
from holdfast.testing.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from holdfast.testing.faults import Nemesis, Plan

_STALL_SECONDS = (0.05, 1.5)
_PIECE_BYTES = 512


def stall(nemesis: Nemesis) -> bool:
    """The next message in pieces stops in the middle for a while."""
    nemesis.world.network.pieces.stall_seconds = nemesis.chance.uniform(*_STALL_SECONDS)
    return False


def _narrow(plan: Plan) -> None:
    plan.piece_bytes = _PIECE_BYTES


TROUBLES = (RareTrouble(name=IN_PIECES, act=stall, chance=0.08, prepare=_narrow),)
