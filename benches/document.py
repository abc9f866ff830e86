"""
The text around the table: the conditions, the commands, how to read it.

A table without its machine, commit, settings and load says nothing, so these are written with it,
by the run that measured it; nobody edits docs/benchmarks.md by hand.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from report import Results
from scenarios import Scenario

_DOCUMENT = """\
# Benchmarks

Written by `make bench ARGS="--write docs/benchmarks.md"`. Absolute numbers belong to the machine
below, where load generator and brokers share the processors; ratios travel better. Run it on yours.

{conditions}

{table}
Medians, with the range of Holdfast's runs in brackets. × is how many times better Holdfast is than
the goal or the other broker: above 1 is good, also where less is better. Bodies are 1 KiB,
persistent, synced to disk before their receipt, and every message is acknowledged, unless the line
says otherwise. A rate is the slower of messages confirmed and messages delivered. A run that lost,
damaged or did not confirm a message does not count and is marked.

What each line runs: `stompbench`, a load generator in C, beside `-s`, `-d` and `--json`; for quorum
queues also the header `x-queue-type:quorum`.

{commands}

`one-w1` measures the disk itself before and after, in the same directory, and takes the better
rate. `three-kill` starts the killed node again and waits until it has caught up before the next
round. `COUNT` is what the broker takes in the length of one load, at most 200,000. In the
three-node lines clients connect to the leader.

The parts have benches of their own: `benches/pipeline.py` (microseconds per message and stage in
one process), `benches/journal.py` (appends against the raw disk), `benches/stomp_codec.py` (one
frame in the parser), `benches/producers.py` (a million producers with one message each),
`benches/turns.py` (how long work that grows keeps others waiting), `benches/growth.py` (how speed
and memory change with size), `benches/features.py` (what the features of consumer clusters cost),
`benches/stores.py` (each way to keep the log, and how long a takeover takes).
"""

GROWTH = "## Growth"
FEATURES = "## Features"
BACKLOGS = "## Backlogs"
STORES = "## Stores"
_GROWTH = """\
## Growth

Written by `.venv/bin/python benches/growth.py --write docs/benchmarks.md`. One node; bodies of 1
KiB, persistent, unless the line says otherwise; medians.

{conditions}

{table}
"""
_FEATURES = """\
## Features

Written by `.venv/bin/python benches/features.py --write docs/benchmarks.md`. Messages a second, one
broker each, in turns; persistent, 256 bytes, synced before the receipt; median, with the range in
brackets. × is how many times faster Holdfast is.

{conditions}

| what | Holdfast | ActiveMQ | × |
| --- | ---: | ---: | ---: |
{rows}
"""

_BACKLOGS = """\
## Backlogs

Written by `.venv/bin/python benches/backlogs.py --write docs/benchmarks.md`. One node and one
queue, persistent messages of 40 bytes. Idle is what the node takes of a core while nobody sends or
takes; the longest turn of its loop, in processor time, is of all since its start; a consumer waits
for its first message from its SUBSCRIBE on, and for each of the next thousand from its ACK
(median).

{conditions}

{table}
"""
_STORES = """\
## Stores

Written by `make bench-stores ARGS="--write docs/benchmarks.md"`. One broker over each way to keep
the log, with one producer (window 1,000) and one consumer; bodies of 1 KiB, persistent, each synced
by what keeps the log before its receipt. In turns, round by round; medians, with the range in
brackets. × is how many times what stands at the head of the column. Brokers, databases and load
generator share the processors, and all data one disk.

{conditions}

{rates}

A share is of the rate in the same round. Processor time is the broker's own, without the
database's.

From the last receipt of a holder that goes to the first one of whoever takes its lease; medians,
and the longest in brackets. Silent is SIGSTOP: it is waited for its lease and a twentieth of it.
The client gives up a connection that is silent for {silence:g} s, and one that is not answered in
{answer:g} s.

{takeovers}
"""


def conditions(results: Results, given: argparse.Namespace, head: dict[str, str]) -> dict[str, str]:
    """Everything that the table needs beside it."""
    low, high = results.load_range
    steal = [
        run.numbers.get("steal_s", 0.0)
        for samples in results.samples.values()
        for sample in samples
        for run in sample.runs
    ]
    disk = [
        sample.values["disk"]
        for sample in results.samples.get(("holdfast", "one-w1"), [])
        if "disk" in sample.values
    ]
    told = dict(head)
    told["brokers"] = "; ".join(
        f"{broker.version()}" if not broker.missing() else f"{broker.title}: {broker.missing()}"
        for broker in given.brokers
    )
    told["settings"] = (
        f"{given.runs} run(s) of {given.seconds:g} s each, one broker at a time, load generator"
        f" (stompbench) on the same machine, loopback, data on one disk"
    )
    told["load averages"] = f"{low:.2f} to {high:.2f} before the runs, which make load themselves"
    told["stolen by the host"] = f"{sum(steal):.1f} CPU-seconds in all"
    if disk:
        words = ", ".join(f"{rate:.0f}" for rate in disk)
        told["raw disk"] = f"pwrite of 1 KiB + fdatasync into preallocated space: {words} /s"
    return told


def document(told: dict[str, str], scenarios: list[Scenario], table: str) -> str:
    """Give docs/benchmarks.md: conditions, table, how to read it, commands."""
    return _DOCUMENT.format(
        conditions=_listed(told),
        table=table,
        commands="\n".join(
            f"- `{each.name}`, nodes: {each.nodes}: `{each.command}`" for each in scenarios
        ),
    )


def growth(told: dict[str, str], table: str) -> str:
    """Give the section on growth."""
    return _GROWTH.format(conditions=_listed(told), table=table)


def features(told: dict[str, str], rows: list[str]) -> str:
    """Give the section on features."""
    return _FEATURES.format(conditions=_listed(told), rows="\n".join(rows))


def backlogs(told: dict[str, str], table: str) -> str:
    """Give the section on what messages cost that wait."""
    return _BACKLOGS.format(conditions=_listed(told), table=table)


def stores(
    told: dict[str, str], rates: str, takeovers: str, *, silence: float, answer: float
) -> str:
    """Give the section on the ways to keep the log."""
    return _STORES.format(
        conditions=_listed(told), rates=rates, takeovers=takeovers, silence=silence, answer=answer
    )


def put_section(path: Path, heading: str, text: str) -> None:
    """Replace the section of a document that begins so, or put it behind the rest."""
    first, sections = _cut(path)
    sections[heading] = text
    path.write_text("\n\n".join(each.rstrip() for each in [first, *sections.values()]) + "\n")


def kept_sections(path: Path) -> str:
    """What other benches wrote behind the table; empty if there is nothing."""
    return "".join(f"\n{text.rstrip()}\n" for text in _cut(path)[1].values())


def _cut(path: Path) -> tuple[str, dict[str, str]]:
    """A document's beginning, and its sections by their headings."""
    first, *rest = (path.read_text() if path.exists() else "").split("\n## ")
    texts = [f"## {each}" for each in rest]
    return first, {text.partition("\n")[0]: text for text in texts}


def _listed(told: dict[str, str]) -> str:
    return "\n".join(f"- {name}: {words}" for name, words in told.items())
