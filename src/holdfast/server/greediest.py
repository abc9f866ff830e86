"""
Whose connection is closed where all together hold too much: one of the user who holds the most.

A bound on what the largest connection holds keeps nobody from holding as much by many small ones,
and then whoever has one that is larger was closed for it. So what counts first is what a user holds
by all of his connections. Where nobody is somebody all are one.

Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Mapping
from heapq import heapify, heappop
from typing import TypeVar

Item = TypeVar("Item", bound=Hashable)


def greediest(
    sizes: Mapping[Item, int], whose: Callable[[Item], str | None]
) -> Iterator[tuple[Item, int]]:
    """Give one after the other: always the largest of who holds the most by those not given yet."""
    totals: defaultdict[str | None, int] = defaultdict(int)
    of_user: defaultdict[str | None, list[tuple[int, int, Item]]] = defaultdict(list)
    for place, (item, size) in enumerate(sizes.items()):
        user = whose(item)
        totals[user] += size
        of_user[user].append((-size, place, item))
    for largest in of_user.values():
        heapify(largest)
    while totals:
        user = max(totals, key=totals.__getitem__)
        negative, _, item = heappop(of_user[user])
        totals[user] += negative
        if not of_user[user]:
            del totals[user]
        yield item, -negative
