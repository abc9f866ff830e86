"""
The report as one HTML page: no script, no network, nothing beside it.

It opens from a mail or a ticket years later. Everything comes from the report's values; names of
queues and producers are data and are escaped. A policy in the page itself forbids the browser to
load anything at all.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from html import escape
from typing import Any, Final

from holdfast.spark.pipelines.report_chart import Curve, draw

DESTINATIONS_DRAWN_MAX: Final = 12
Report = dict[str, Any]

_STYLE: Final = """
:root{--ink:#1c2430;--soft:#667085;--paper:#fff;--panel:#f6f7f9;--edge:#e3e6eb;
--stored:#2563eb;--done:#059669;--wait:#d97706;--dead:#dc2626;--seen:#7c3aed}
@media (prefers-color-scheme:dark){:root{--ink:#e6e9ef;--soft:#98a2b3;--paper:#12161c;
--panel:#1a2029;--edge:#2b3340;--stored:#60a5fa;--done:#34d399;--wait:#fbbf24;--dead:#f87171;
--seen:#a78bfa}}
*{box-sizing:border-box}
body{margin:0 auto;max-width:1240px;padding:32px 24px 64px;background:var(--paper);
color:var(--ink);font:15px/1.5 system-ui,sans-serif}
h1{font-size:26px;margin:0}h2{font-size:18px;margin:40px 0 12px}h3{font-size:15px;margin:0 0 8px}
.soft,.tick{color:var(--soft);fill:var(--soft)}.note{border-left:3px solid var(--wait);
padding:6px 12px;margin:16px 0;background:var(--panel)}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;
margin-top:24px}
.tile,.card{background:var(--panel);border:1px solid var(--edge);border-radius:10px;padding:14px}
.tile b{display:block;font-size:24px;font-variant-numeric:tabular-nums}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(460px,1fr));gap:16px}
@media (max-width:540px){.cards{grid-template-columns:1fr}}
.scroll{overflow-x:auto}table{border-collapse:collapse;width:100%;font-size:14px}
th,td{text-align:right;padding:6px 10px;border-bottom:1px solid var(--edge);white-space:nowrap;
font-variant-numeric:tabular-nums}
th{color:var(--soft);font-weight:500}th:first-child,td:first-child{text-align:left}
svg{width:100%;height:auto;display:block}.grid{stroke:var(--edge)}.tick{font-size:11px}
.end{text-anchor:end}.line{fill:none;stroke-width:1.8;stroke-linejoin:round}
.area{opacity:.16;stroke:none}.hint{fill:transparent}.hint:hover{fill:var(--edge);opacity:.5}
.line.stored{stroke:var(--stored)}.line.done{stroke:var(--done)}.line.wait{stroke:var(--wait)}
.line.dead{stroke:var(--dead)}.line.seen{stroke:var(--seen);stroke-dasharray:4 3}
.area.wait{fill:var(--wait)}.area.stored{fill:var(--stored)}
.key{font-size:12px;color:var(--soft);margin:4px 0 10px}.key i{display:inline-block;width:14px;
height:3px;vertical-align:middle;margin:0 5px 0 12px;background:currentColor}
.key i.stored{background:var(--stored)}.key i.done{background:var(--done)}
.key i.seen{background:var(--seen)}.key i.dead{background:var(--dead)}
.key i.wait{background:var(--wait)}.bad{color:var(--dead)}
"""


def render_page(report: Report, *, title: str = "Holdfast report") -> str:
    """Return the whole page."""
    return "".join(
        (
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width,initial-scale=1">',
            '<meta http-equiv="Content-Security-Policy" content="default-src \'none\';',
            " style-src 'unsafe-inline'\">",
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>",
            _head(report, title),
            _tiles(report["totals"]),
            _destination_table("Destinations", "destination", report["destinations"]),
            _destination_table(
                "Durable subscriptions", "subscription", report.get("subscriptions", [])
            ),
            _charts(report, "Over time", "destination"),
            _charts(report, "Durable subscriptions over time", "subscription"),
            _producers(report["top_producers"]),
            _messages(report["largest_messages"]),
            _footnote(),
            "</body></html>\n",
        )
    )


def _head(report: Report, title: str) -> str:
    source = report.get("source", {})
    told = f"Entries {_number(source.get('first_index'))} to {_number(source.get('last_index'))}"
    told += f" of {escape(str(source.get('place', '')))}"
    if cluster := source.get("cluster_id"):
        told += f", cluster {escape(str(cluster)[:8])}"
    span = f"{report['from']} to {report['to']}" if report["from"] else "no messages yet"
    note = ""
    if not source.get("is_complete", True):
        note = (
            f'<p class="note">The log before entry {_number(source.get("first_index"))} was cleaned'
            " away: messages settled before then are not counted.</p>"
        )
    for sentence in source.get("missing", []):
        note += f'<p class="note">{escape(sentence)}: what was in them is not counted.</p>'
    if source.get("is_part"):
        note += (
            '<p class="note">Only a part of the log was asked for: messages stored before it are'
            " not counted, and what was settled after it counts as waiting. Of durable"
            " subscriptions made before it nothing is told, and what is on their topics counts as"
            " waiting.</p>"
        )
    return f'<h1>{escape(title)}</h1><div class="soft">{span}<br>{told}</div>{note}'


def _tiles(totals: Report) -> str:
    waits = totals["seconds_to_acknowledge"]
    tiles = (
        ("stored", _number(totals["stored"]), _size(totals["stored_bytes"])),
        ("acknowledged", _number(totals["acknowledged"]), f"p50 {_seconds(waits['p50'])}"),
        ("backlog", _number(totals["backlog"]), _size(totals["backlog_bytes"])),
        ("dead-lettered", _number(totals["dead-lettered"]), ""),
        ("purged", _number(totals["purged"]), ""),
        ("p99 to acknowledge", _seconds(waits["p99"]), f"at most {_seconds(waits['max'])}"),
    )
    drawn = (
        f'<div class="tile"><span class="soft">{name}</span><b>{value}</b>'
        f'<span class="soft">{below}&nbsp;</span></div>'
        for name, value, below in tiles
    )
    return f'<div class="tiles">{"".join(drawn)}</div>'


def _destination_table(title: str, kind: str, destinations: Sequence[Report]) -> str:
    head = (
        *(kind, "stored", "bytes", "delivered at most", "acknowledged", "dead-lettered"),
        *("expired", "dropped", "purged", "backlog", "oldest waiting", "p50", "p95", "p99", "max"),
    )
    rows = []
    for each in destinations:
        waits = each["seconds_to_acknowledge"]
        dead = _number(each["dead-lettered"])
        rows.append(
            (
                escape(each[kind]),
                _number(each["stored"]),
                _size(each["stored_bytes"]),
                _number(each["delivered_most"]),
                _number(each["acknowledged"]),
                f'<span class="bad">{dead}</span>' if each["dead-lettered"] else dead,
                _number(each["expired"]),
                _number(each["dropped"]),
                _number(each["purged"]),
                _number(each["backlog"]),
                each["oldest_waiting"] or "–",
                *(_seconds(waits[name]) for name in ("p50", "p95", "p99", "max")),
            )
        )
    return _section(title, head, rows)


def _charts(report: Report, title: str, kind: str) -> str:
    series, told = report["series"], report.get(f"{kind}s", [])
    if not series["start"] or not told:
        return ""
    step = series["step_seconds"]
    every = list(dict.fromkeys(each[kind] for each in told))
    drawn = every[:DESTINATIONS_DRAWN_MAX]
    cards = [_card(name, series[f"{kind}s"][name], series["start"], step) for name in drawn]
    left = len(every) - len(drawn)
    more = f'<p class="soft">{left} more with fewer messages are not drawn.</p>' if left else ""
    return f'<h2>{title}</h2><div class="cards">{"".join(cards)}</div>{more}'


def _card(name: str, curves: Report, start: str, step: int) -> str:
    times = _times(start, step, len(curves["stored"]))

    def rates(key: str) -> list[float]:
        return [value / step for value in curves[key]]

    flow = [
        Curve("stored", "stored", rates("stored"), is_filled=True),
        Curve("delivered at most", "seen", rates("delivered_most")),
        Curve("acknowledged", "done", rates("acknowledged")),
    ]
    if any(curves["dead-lettered"]):
        flow.append(Curve("dead-lettered", "dead", rates("dead-lettered")))
    backlog = [Curve("backlog", "wait", curves["backlog"], is_filled=True)]
    keys = "".join(f'<i class="{it.style}"></i>{it.label}' for it in flow)
    return (
        f'<div class="card"><h3>{escape(name)}</h3><div class="key">per second{keys}</div>'
        + draw(flow, times, title=f"{name}: messages per second", unit="/s")
        + '<div class="key"><i class="wait"></i>backlog</div>'
        + draw(backlog, times, title=f"{name}: backlog")
        + "</div>"
    )


def _times(start: str, step: int, count: int) -> list[str]:
    first = datetime.fromisoformat(start)
    days = step * count >= 86_400
    form = "%m-%d %H:%M" if days else "%H:%M:%S"
    return [(first + timedelta(seconds=step * n)).strftime(form) for n in range(count)]


def _producers(producers: Iterable[Report]) -> str:
    rows = [
        (
            escape(each["producer_id"] or "(not numbered)"),
            _number(each["messages"]),
            _size(each["bytes"]),
            each["first"],
            each["last"],
        )
        for each in producers
    ]
    return _section("Top producers", ("producer", "messages", "bytes", "first", "last"), rows)


def _messages(messages: Iterable[Report]) -> str:
    rows = [
        (
            escape(each["destination"]),
            _number(each["sequence"]),
            _size(each["bytes"]),
            _number(each["index"]),
            each["stored_at"],
            each["fate"],
        )
        for each in messages
    ]
    head = ("destination", "sequence", "bytes", "entry", "stored at", "now")
    return _section("Largest messages", head, rows)


def _section(title: str, head: Iterable[str], rows: Sequence[Iterable[str]]) -> str:
    if not rows:
        return ""
    heads = "".join(f"<th>{each}</th>" for each in head)
    lines = "".join(f"<tr>{''.join(f'<td>{cell}</td>' for cell in row)}</tr>" for row in rows)
    return (
        f"<h2>{title}</h2><div class=scroll><table><thead><tr>{heads}</tr></thead>"
        f"<tbody>{lines}</tbody></table></div>"
    )


def _footnote() -> str:
    return (
        '<p class="soft">All times are UTC. Percentiles are of the time from storing a message to'
        " its acknowledgement, exact to a part in ten thousand. The log keeps a mark up to which"
        " messages may have been delivered, not every delivery: hence “at most”. A"
        " dead-lettered message is stored once more, on the dead-letter queue. A topic's message is"
        " stored once, and waits until each durable subscription is done with it.</p>"
    )


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _size(count: int) -> str:
    size, units = float(count), ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{count:,} B" if units[0] == "B" else f"{size:,.1f} {units[0]}"


def _seconds(value: float | None) -> str:
    if value is None:
        return "–"
    if value < 1:
        return f"{value * 1000:,.1f} ms"
    return f"{value:,.1f} s" if value < 120 else f"{value / 60:,.1f} min"
