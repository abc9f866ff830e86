"""
The report of a run: one HTML file that needs no other, beside the PNG files it shows.

The page tells the verdict first, then what was accounted for, the curves, the slopes with their
limits, and the faults. It has no script and asks no network.

Made from the record alone, so that an aborted run can be rendered later.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from trials.soak.curves import draw
from trials.soak.judgement import Judgement, Verdict, format_measure, judge
from trials.soak.samples import Record, read_record
from trials.soak.settings import SoakSettings

MEASURES = {
    "rss_bytes": "resident memory",
    "fds": "file handles",
    "threads": "threads",
    "disk_bytes": "data folder",
    "disk_files": "files",
}
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 1240px; margin: 2em auto; padding: 0 1em;
  color: #222; background: #fff }
h1 { font-size: 1.6em } h2 { font-size: 1.2em; margin-top: 2em }
table { border-collapse: collapse; font-size: 13px } th { text-align: left; font-weight: 600 }
td, th { padding: 3px 12px 3px 0; border-bottom: 1px solid #ddd; vertical-align: top }
td.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
img { max-width: 100%; display: block; margin: 1.5em 0 } .bad { color: #b00000; font-weight: 600 }
.good { color: #007a33; font-weight: 600 } .aside { color: #666 }
"""


def settings_of(record: Record) -> SoakSettings:
    """Give the settings that a run was started with, as far as judging needs them."""
    known = ("seconds", "topology", "seed", "rate", "warm_up_seconds", "segment_bytes")
    return SoakSettings(**{name: record.run[name] for name in known if name in record.run})


def render(folder: Path, settings: SoakSettings | None = None) -> Verdict:
    """
    Read the record in a folder, draw and write the report beside it; give the verdict.

    Raises:
        FileNotFoundError: There is no record.
    """
    record = read_record(folder)
    verdict = judge(record, settings or settings_of(record))
    pictures = draw(record, folder)
    (folder / "report.html").write_text(page(record, verdict, pictures), encoding="utf-8")
    return verdict


def page(record: Record, verdict: Verdict, pictures: Iterable[Path]) -> str:
    """Give the page."""
    title = f"Soak of {_duration(record)}, {record.run.get('topology', 'unknown topology')}"
    parts = [
        "<!doctype html>",
        f'<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>',
        f"<style>{_STYLE}</style></head><body>",
        f"<h1>{escape(title)}: {_verdict_word(verdict)}</h1>",
        f'<p class="aside">{escape(_origin(record))}</p>',
    ]
    parts += [f'<p class="bad">{escape(problem)}</p>' for problem in verdict.problems]
    parts += [f"<p>{escape(remark)}</p>" for remark in verdict.remarks]
    parts += ["<h2>What was sent, confirmed and delivered</h2>", _accounts(record)]
    parts += ["<h2>Curves</h2>"]
    parts += [_picture(path) for path in pictures]
    parts += ["<h2>Slopes</h2>", _slopes(verdict.judgements)]
    parts += ["<h2>Faults</h2>", _faults(record), "</body></html>"]
    return "\n".join(parts) + "\n"


def _verdict_word(verdict: Verdict) -> str:
    if verdict.is_ok:
        return '<span class="good">flat, nothing lost</span>'
    return f'<span class="bad">{len(verdict.problems)} problems</span>'


def _duration(record: Record) -> str:
    seconds = record.seconds
    return f"{seconds:.0f} s" if seconds < 180 else f"{seconds / 60:.0f} minutes"


def _origin(record: Record) -> str:
    run = record.run
    known = [("started", "started"), ("machine", "machine"), ("seed", "seed"), ("version", "of")]
    found = [f"{word} {run[name]}" for name, word in known if name in run]
    confirms = sum(sample.confirms for sample in record.clients)
    deliveries = sum(sample.deliveries for sample in record.clients)
    found.append(f"{confirms:,} confirms, {deliveries:,} deliveries")
    found.append(f"{len(record.nodes):,} samples of {len(record.node_names)} nodes")
    return "; ".join(found)


def _table(heads: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Give a table; numbers stand to the right, a cell may be (text, class)."""
    lines = ["<table><tr>", *(f"<th>{escape(head)}</th>" for head in heads), "</tr>"]
    lines.extend("<tr>" + "".join(_cell(value) for value in row) + "</tr>" for row in rows)
    return "".join([*lines, "</table>"])


def _cell(value: Any) -> str:
    if isinstance(value, tuple):
        return f'<td class="{value[1]}">{escape(str(value[0]))}</td>'
    if isinstance(value, int | float):
        return f'<td class="number">{value:,}</td>'
    return f"<td>{escape(str(value))}</td>"


def _accounts(record: Record) -> str:
    if not record.accounts:
        return "<p>The run ended before its account.</p>"
    heads = ["traffic", "sent", "confirmed", "delivered", "lost", "unflagged", "twice"]
    heads += ["unexpected", "out of order", "redelivered", ""]
    rows = []
    for row in record.accounts:
        word = "; ".join(row.faults)
        says = (word, "bad") if word else ("strict: all there" if row.is_strict else "may lose")
        rows.append(
            (
                *(row.name, row.sent, row.confirmed, row.delivered, row.lost, row.unflagged),
                *(row.twice, row.unexpected, row.reordered, row.redelivered, says),
            )
        )
    return _table(heads, rows)


def _slopes(judgements: Sequence[Judgement]) -> str:
    heads = ["measure", "node", "stretch", "from", "for", "median", "slope per hour", "growth"]
    heads += ["flat up to", "a slope seen from", ""]
    rows = []
    for each in sorted(judgements, key=lambda j: (j.measure, j.node, j.begins)):
        trend, measure = each.trend, each.measure

        def show(value: float, measure: str = measure) -> tuple[str, str]:
            return format_measure(measure, value), "number"

        rows.append(
            (
                *(MEASURES[measure], each.node, each.stretch),
                *((f"{each.begins:.0f} s", "number"), (f"{trend.seconds:.0f} s", "number")),
                *(show(trend.median), show(each.per_hour), show(trend.growth)),
                *(show(each.growth_max), show(each.visible_per_hour)),
                ("flat", "good") if each.is_flat else ("grows", "bad"),
            )
        )
    return _table(heads, rows)


def _faults(record: Record) -> str:
    if not record.faults:
        return "<p>None.</p>"
    heads = ("at", "fault", "node", "whole again after", "longest time without a receipt")
    rows = [
        (
            (f"{mark.at:.0f} s", "number"),
            mark.fault,
            mark.node,
            (f"{mark.seconds:.1f} s", "number"),
            (f"{mark.gap_ms:,.0f} ms", "number"),
        )
        for mark in record.faults
    ]
    return _table(heads, rows)


def _picture(path: Path) -> str:
    text = base64.b64encode(path.read_bytes()).decode("ascii")
    return f'<img alt="{escape(path.stem)}" src="data:image/png;base64,{text}">'
