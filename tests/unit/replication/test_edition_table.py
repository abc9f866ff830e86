"""The table of editions: the newest of each stays, and room is bounded."""

from __future__ import annotations

from holdfast.journal.ballot import SEEN_MAX
from holdfast.replication.edition_table import EDITIONS_MAX, EditionTable

A, B, C = ("aa" * 16, "bb" * 16, "cc" * 16)


def test_the_newest_edition_stays() -> None:
    """Late and doubled news change nothing; what the ballot held is there again."""
    table = EditionTable(A, 3, {B: 10})
    table.is_news = False

    table.hear("c", {B: 9})
    assert not table.is_news
    table.hear("c", {B: 12})

    assert table.is_news
    assert {A: 3, B: 12} == table.known
    assert (3, 12, -1) == (table.own, table.newest(B), table.newest(C))


def test_what_is_noted_leaves_out_who_never_returns() -> None:
    """Neither this node itself nor a retired identity; room is bounded."""
    table = EditionTable(A, 3)
    table.hear("c", {B: 9, C: 4})

    assert {C: 4} == table.others((B,))
    assert -1 == table.newest(B)

    table.hear("c", {f"{number:032x}": 1 for number in range(2 * SEEN_MAX)})
    assert EDITIONS_MAX == SEEN_MAX == len(table.others(()))
