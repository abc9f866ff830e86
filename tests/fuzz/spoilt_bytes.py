"""
Bytes that were good, with some of them changed, left out, doubled or put in.
"""

from __future__ import annotations

import random


def spoilt(draw: random.Random, data: bytes) -> bytes:
    """Some bytes of it changed, cut, doubled or put in; one time in five none."""
    made = bytearray(data)
    for _ in range(draw.choice((0, 1, 1, 2, 8))):
        place = draw.randrange(len(made) + 1)
        kind = draw.randrange(4)
        if kind == 0 and place < len(made):
            made[place] = draw.randrange(256)
        elif kind == 1:
            del made[place : place + draw.randrange(1, 20)]
        elif kind == 2:
            made[place:place] = made[place : place + draw.randrange(1, 2000)]
        else:
            made[place:place] = draw.randbytes(draw.randrange(1, 40))
    return bytes(made)
