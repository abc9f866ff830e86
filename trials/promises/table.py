"""
The page docs/reference/promises.md: written from evidence, and held to it.

`render` writes it; `check` reads a page that was written earlier and says what is not true of it
any more: a row that is missing, a test or scenario that is gone, a `kept` that a run of today calls
broken. Nobody edits the page.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from trials.chaos.scenarios import SCENARIOS as CHAOS
from trials.promises.catalogue import PROMISES
from trials.promises.evidence import (
    REPOSITORY,
    Evidence,
    FailoverTimes,
    Stamp,
    does_test_exist,
)
from trials.promises.simulations import SCENARIOS
from trials.promises.verdicts import (
    ABSENT,
    BROKEN,
    KEPT,
    MIX,
    NOT_SHOWN,
    STALE,
    Demonstration,
    Row,
    judge_all,
    percentile,
)

PAGE = REPOSITORY / "docs" / "reference" / "promises.md"
AIMS_MS = {"killed": 2000.0, "silent": 3000.0}
"""Time without confirms after the leader was lost so, at p99, at default timings."""

_HEAD = """# Promises

What each fault may cost, and the runs that show it. This page is written by `make promises` from
what those runs returned, and `make test` fails if it says more than they do. Nobody edits it.

| status | means |
|---|---|
| kept | real processes and the simulator both show it, and no run found a violation |
| shown only by … | runs show it, but not both real processes and the simulator |
| broken | a run found a violation; the row says which |
| not run since the last change | runs showed it, with earlier sources of the product |
| not shown | no run shows it |
| does not apply yet | Holdfast has no such thing |

A run with real processes is either *chaos* (`make chaos`: brokers in networks and on disks that
fail) or a test that starts brokers. The simulator lives through the same faults in virtual time,
with one seed for each run (see [the simulator](../explanation/simulator.md)). *Without confirms* is
the time, in milliseconds at p50 and p99, for which nothing was confirmed although something was
due, after each step of chaos, at default timings. Messages delivered again are counted, and every
one must say so.
"""
_ROW = re.compile(r"^\| (F\d+) \|(.*)\|$", re.MULTILINE)
_SHOWN = re.compile(r"^- (F\d+), (simulator|chaos|test): `([^`]+)`", re.MULTILINE)
_HISTOGRAM_MS = 250
_BAR_MAX = 40


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# Writing ------------------------------------------------------------------------------------------


def _stamps(stamps: Iterable[Stamp]) -> str:
    return ", ".join(sorted({f"{made.date} at {made.commit}" for made in stamps}))


def _measured(row: Row) -> str:
    cost = row.cost
    parts = []
    if row.promise.may_lose:
        parts.append("a loss is possible and not counted")
    elif cost.confirmed:
        parts.append(f"lost {cost.lost:,} of {cost.confirmed:,} confirmed")
    if cost.gaps_ms:
        p50, p99 = percentile(cost.gaps_ms, 0.5), percentile(cost.gaps_ms, 0.99)
        parts.append(f"without confirms {p50:,.0f} / {p99:,.0f} ms ({len(cost.gaps_ms)} times)")
    if cost.confirmed:
        flags = "all say so" if not cost.unflagged else f"{cost.unflagged:,} do not say so"
        parts.append(f"{cost.duplicates:,} delivered again, {flags}")
    runs = [
        f"{count:,} {name if count == 1 else name + 's'}"
        for count, name in (
            (cost.seeds, "seed"),
            (cost.chaos_runs, "chaos run"),
            (cost.tests, "test"),
        )
        if count
    ]
    if runs:
        parts.append(" + ".join(runs))
    return "; ".join(parts)


def _row(row: Row) -> str:
    promise = row.promise
    promised = promise.promised
    if promise.limit:
        promised += f" *{promise.limit}*"
    status = f"**{row.status}**" if row.status == BROKEN else row.status
    if promise.absent:
        promised = f"— {promise.absent}"
    if row.troubles:
        status += ": " + "; ".join(row.troubles[:3])
    return " | ".join(
        [
            f"| {promise.fault}",
            _cell(promise.injected),
            _cell(promised),
            _cell(status),
            _cell(_measured(row)) or "—",
            (_stamps(row.stamps) or "—") + " |",
        ]
    )


def _label(shown: Demonstration) -> str:
    names = {"the simulator": "simulator", "chaos": "chaos"}
    return "test" if "::" in shown.name else names[shown.kind]


def _shown_by(rows: Iterable[Row]) -> list[str]:
    lines = []
    for row in rows:
        if row.promise.absent:
            continue
        fault = row.promise.fault
        for it in row.demonstrations:
            stale = "" if it.is_current or it.stamp is None else f"; of {it.stamp.commit}"
            lines.append(f"- {fault}, {_label(it)}: `{it.name}` ({it.remark}{stale})")
        if not any(it.is_run for it in row.demonstrations):
            lines.append(f"- {fault}: no running test")
    return lines


def histogram(gaps_ms: Sequence[float]) -> list[str]:
    """Draw how often each length of time came, in lines of text."""
    counts: dict[int, int] = {}
    for gap in gaps_ms:
        place = int(gap // _HISTOGRAM_MS)
        counts[place] = counts.get(place, 0) + 1
    most = max(counts.values())
    lines = []
    for place in range(min(counts), max(counts) + 1):
        count = counts.get(place, 0)
        bar = "#" * round(_BAR_MAX * count / most) if count else ""
        low = place * _HISTOGRAM_MS
        lines.append(f"{low:>5} to {low + _HISTOGRAM_MS:>5} ms {count:>4} {bar}".rstrip())
    return lines


_HOW = {
    "killed": "Killed (SIGKILL): its connections close, and the others know at once.",
    "silent": "Silent (SIGSTOP): all that is seen of a machine without power or network.",
}


def _distribution(measured: FailoverTimes) -> list[str]:
    gaps = measured.gaps_ms
    p99 = percentile(gaps, 0.99)
    aim = AIMS_MS[measured.how]
    verdict = "reached" if p99 <= aim else "**missed**"
    shares = [f"{percentile(gaps, share):,.0f}" for share in (0.5, 0.9, 0.99, 1.0)]
    earlier = "" if measured.stamp.is_current else " (an earlier product)"
    return [
        f"{_HOW[measured.how]} {len(gaps)} times, {_stamps([measured.stamp])}{earlier},",
        f"{measured.cores} cores for brokers and load together:",
        "",
        "| p50 | p90 | p99 | longest | aim for p99 | |",
        "|---|---|---|---|---|---|",
        f"| {' | '.join(shares)} | {aim:,.0f} | {verdict} |",
        "",
        f"Confirmed {measured.confirmed:,} messages, lost {measured.lost:,}; delivered again",
        f"{measured.duplicates:,}, of them {measured.unflagged:,} that did not say so.",
        "",
        "```",
        *histogram(gaps),
        "```",
        "",
    ]


def _failover(measured: dict[str, FailoverTimes]) -> list[str]:
    lines = [
        "## Failover times",
        "",
        "The leader of three is lost under load, as real processes at default timings, each time",
        "from a whole cluster. How long nothing was confirmed, in milliseconds, as producers see",
        "it that try the next address at once, and give a broker up that is silent for 1 s.",
        "",
    ]
    for how, words in _HOW.items():
        if how in measured and measured[how].gaps_ms:
            lines += _distribution(measured[how])
        else:
            lines += [f"{words} Not measured: run `make promises`.", ""]
    return lines


def render(evidence: Evidence) -> str:
    """Write the page from what is known."""
    rows = judge_all(evidence)
    counts: dict[str, int] = {}
    for row in rows:
        word = row.status.split(" by ", 1)[0]
        counts[word] = counts.get(word, 0) + 1
    names = [KEPT, "shown only", STALE, BROKEN, NOT_SHOWN, ABSENT]
    summary = [f"{counts[name]} {name}" for name in dict.fromkeys(names) if counts.get(name)]
    lines = [
        _HEAD,
        f"{len(rows)} faults: {', '.join(summary)}.",
        "",
        "| | injected | promised | status | last measured | run |",
        "|---|---|---|---|---|---|",
        *map(_row, rows),
        "",
        *_failover(evidence.failover),
        "## What shows what",
        "",
        "Simulated scenarios: `trials/promises/simulations.py`.",
        "Chaos scenarios: `trials/chaos/scenarios.py`.",
        "",
        *_shown_by(rows),
        "",
    ]
    return "\n".join(lines)


# Checking -----------------------------------------------------------------------------------------


def _status_of(cells: str) -> str:
    columns = [cell.strip() for cell in re.split(r"(?<!\\)\|", cells)]
    return columns[2] if len(columns) > 2 else ""


def check_names(text: str) -> list[str]:
    """Say which rows are missing from a page, and which tests and scenarios it made up."""
    problems = []
    found = [fault for fault, _ in _ROW.findall(text)]
    problems += [f"{fault} has no row" for fault in PROMISES if fault not in found]
    problems += [f"{fault} has two rows" for fault in set(found) if found.count(fault) > 1]
    for fault, kind, name in _SHOWN.findall(text):
        is_there = (
            (kind == "simulator" and name in SCENARIOS)
            or (kind == "chaos" and (name == MIX or name in CHAOS))
            or (kind == "test" and does_test_exist(name))
        )
        if not is_there:
            problems.append(f"{fault} names the {kind} `{name}`, which does not exist")
    shown = {fault for fault, _, _ in _SHOWN.findall(text)}
    for fault, cells in _ROW.findall(text):
        status = _status_of(cells)
        if (status == KEPT or status.startswith("shown only")) and fault not in shown:
            problems.append(f"{fault} is {status} and nothing shows it")
    return problems


def check(text: str, evidence: Evidence) -> list[str]:
    """Say what is not true of a page, given what runs of today found."""
    problems = check_names(text)
    told = {fault: _status_of(cells) for fault, cells in _ROW.findall(text)}
    for row in judge_all(evidence):
        fault = row.promise.fault
        claim = told.get(fault, "")
        is_good = claim == KEPT or claim.startswith(("shown only", STALE))
        if row.status == BROKEN and is_good:
            problems.append(f"{fault} is called {claim}, and is broken: {'; '.join(row.troubles)}")
        if row.status == ABSENT and is_good:
            problems.append(f"{fault} is called {claim}, and does not apply")
    return problems


def write(text: str, path: Path) -> None:
    """Replace the page whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".new")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
