"""
The report's page: self-contained, escaped, and there also when nothing has happened yet.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

from holdfast.spark.pipelines.report_page import render_page

WAITS = {"p50": 0.002, "p95": 1.5, "p99": 300.0, "max": None}
COUNTS = {
    "stored": 12,
    "stored_bytes": 2048,
    "acknowledged": 9,
    "dead-lettered": 1,
    "expired": 3,
    "dropped": 5,
    "purged": 0,
    "backlog": 2,
    "backlog_bytes": 10,
    "oldest_waiting": "2026-01-01T00:00:00.000Z",
    "seconds_to_acknowledge": WAITS,
}


def report(name: str = "orders") -> dict[str, Any]:
    curve = [1, 2, 3]
    curves = ("stored", "delivered_most", "acknowledged", "dead-lettered", "purged", "backlog")
    return {
        "totals": {"events": 30, **COUNTS},
        "from": "2026-01-01T00:00:00.000Z",
        "to": "2026-01-01T00:00:02.000Z",
        "destinations": [{"destination": name, "delivered_most": 11, **COUNTS}],
        "series": {
            "start": "2026-01-01T00:00:00.000Z",
            "step_seconds": 1,
            "destinations": {name: dict.fromkeys(curves, curve)},
        },
        "top_producers": [
            {"producer_id": None, "messages": 12, "bytes": 2048, "first": "a", "last": "b"}
        ],
        "largest_messages": [
            {
                "destination": name,
                "sequence": 3,
                "index": 7,
                "bytes": 400,
                "stored_at": "a",
                "fate": "waiting",
            }
        ],
        "source": {"place": "d", "first_index": 7, "last_index": 30, "is_complete": False},
    }


class Tags(HTMLParser):
    """Every tag opened and not closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        if tag not in {"meta", "br", "line", "polyline", "polygon"}:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_is_whole_and_alone() -> None:
    """All tags are closed; no script, no image, no address of anything else."""
    page = render_page(report())
    tags = Tags()
    tags.feed(page)
    assert tags.open == []
    assert {"svg", "table", "polyline"} <= tags.seen
    assert not tags.seen & {"script", "img", "link", "iframe"}
    assert not re.search(r"(?:src|href)=|url\(|@import|https?:", page)


def test_names_are_data() -> None:
    """A queue may be called anything; the page shows it and does not obey it."""
    page = render_page(report("<script>alert(1)</script>"))
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)" in page


def test_the_page_says_what_it_cannot_know() -> None:
    """A cleaned log is told of; a message without a number has a place in the list."""
    part = report()
    part["source"]["is_part"] = True
    part["source"]["missing"] = ["entries 9 to 12 are missing"]
    page = render_page(part)
    assert "Only a part of the log" in page
    assert "entries 9 to 12 are missing: what was in them is not counted" in page
    assert "The log before entry 7 was cleaned" in page
    assert "(not numbered)" in page
    assert "2.0 ms" in page
    assert "5.0 min" in page


def test_durable_subscriptions_have_a_table_and_curves() -> None:
    """Beside the destinations, which have no column that is only theirs."""
    name = "topic://prices?subscription=<ann>:mine"
    told = report()
    told["subscriptions"] = [{"subscription": name, "delivered_most": 11, **COUNTS}]
    told["series"]["subscriptions"] = {name: told["series"]["destinations"]["orders"]}
    page = render_page(told)
    assert page.count("topic://prices?subscription=&lt;ann&gt;:mine</td>") == 1
    assert page.count("<h3>topic://prices?subscription=&lt;ann&gt;:mine</h3>") == 1
    assert page.count("Durable subscriptions") == 2
    assert "Durable subscriptions" not in render_page(report())


def test_an_empty_log_has_a_page() -> None:
    """Nothing has happened yet: no charts, no tables, no error."""
    empty = report()
    empty |= {"from": None, "to": None, "destinations": [], "top_producers": []}
    empty |= {"largest_messages": [], "series": {"start": None, "step_seconds": 0}}
    page = render_page(empty)
    assert "no messages yet" in page
    assert "<svg" not in page
