"""
The curves of a run as PNG files: 1,200 pixels wide, one file per group.

Faults are marked in each panel; nodes keep their colours in all of them. matplotlib is imported
only when something is drawn, with the Agg backend: no window, no display.

Draws what a record holds and judges nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trials.soak.samples import FaultMark, NodeSample, Record

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MIB = float(1 << 20)
_WIDTH_INCHES, _PANEL_INCHES, _DOTS_PER_INCH = 12.0, 2.7, 100
_STRIP_INCHES = 1.25
"""For the names of the faults, above the panels."""
_NODE_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_FAULT_COLOURS = {
    "kill": "#C00000",
    "pause": "#7F3FBF",
    "stop": "#A06000",
    "transfer": "#606060",
}
_GAP_SAMPLES = 2.5
"""A hole in a node's samples longer than this breaks its curve: the process was not there."""

Value = Callable[[NodeSample], float | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One plot: a value of each node over time, or something drawn from the clients' samples."""

    title: str
    unit: str
    of_node: Value | None = None
    of_clients: tuple[tuple[str, str], ...] = ()
    """(label, field of ClientSample), for panels about the clients."""

    is_logarithmic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """The panels of one file."""

    name: str
    title: str
    panels: tuple[Panel, ...]


def _scaled(name: str, by: float = 1.0) -> Value:
    def value(sample: NodeSample) -> float | None:
        found = getattr(sample, name)
        return None if found is None else float(found) / by

    return value


def _role_height(sample: NodeSample) -> float | None:
    heights = {"leader": 2.0, "candidate": 1.0, "follower": 0.0, "learner": 0.0, "witness": -1.0}
    return None if sample.role is None else heights[sample.role]


GROUPS = (
    Group(
        name="memory",
        title="Memory and processor",
        panels=(
            Panel(title="Resident memory", unit="MiB", of_node=_scaled("rss_bytes", _MIB)),
            Panel(
                title="Message bodies kept in memory",
                unit="MiB",
                of_node=_scaled("memory_bytes", _MIB),
            ),
            Panel(title="Processor", unit="% of a core", of_node=_scaled("cpu_seconds")),
        ),
    ),
    Group(
        name="handles",
        title="Handles, threads, connections",
        panels=(
            Panel(title="Open file handles", unit="handles", of_node=_scaled("fds")),
            Panel(title="Threads", unit="threads", of_node=_scaled("threads")),
            Panel(title="Client connections", unit="connections", of_node=_scaled("connections")),
        ),
    ),
    Group(
        name="disk",
        title="Disk and log",
        panels=(
            Panel(title="Data folder", unit="MiB", of_node=_scaled("disk_bytes", _MIB)),
            Panel(title="Files in the data folder", unit="files", of_node=_scaled("disk_files")),
            Panel(title="Entries in the log", unit="entries", of_node=_scaled("entries")),
            Panel(title="Segments of the log", unit="segments", of_node=_scaled("segments")),
        ),
    ),
    Group(
        name="traffic",
        title="Traffic, as the clients see it",
        panels=(
            Panel(
                title="Rate",
                unit="messages per second",
                of_clients=(("confirmed", "confirms"), ("delivered", "deliveries")),
            ),
            Panel(
                title="Time from sending to receipt",
                unit="ms (logarithmic)",
                of_clients=(("median", "p50_ms"), ("99th percentile", "p99_ms")),
                is_logarithmic=True,
            ),
            Panel(
                title="Longest time without any receipt",
                unit="ms",
                of_clients=(("per sample", "gap_ms"),),
            ),
        ),
    ),
    Group(
        name="cluster",
        title="Queues and replication",
        panels=(
            Panel(title="Messages in all queues", unit="messages", of_node=_scaled("depth")),
            Panel(title="Entries committed but not known here yet", unit="entries"),
            Panel(title="Role", unit="", of_node=_role_height),
        ),
    ),
)


def draw(record: Record, folder: Path) -> list[Path]:
    """Draw all groups into a folder; give the files."""
    # A figure without pyplot draws with Agg alone, and is forgotten when it is written.
    from matplotlib.figure import Figure  # noqa: PLC0415 - a second, and only who draws needs it

    files = []
    for group in GROUPS:
        strip = _STRIP_INCHES if record.faults else 0.15
        heights = [strip] + [_PANEL_INCHES] * len(group.panels)
        figure = Figure(figsize=(_WIDTH_INCHES, sum(heights) + 0.6), layout="constrained")
        axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights)
        figure.suptitle(group.title, fontsize=14, fontweight="bold", x=0.01, ha="left")
        unit, scale = _time_unit(record)
        for number, panel in enumerate(group.panels, 1):
            plot = axes[number]
            _draw_panel(plot, panel, record, scale)
            _mark_faults(plot, record, scale)
        _name_faults(axes[0], record, scale)
        axes[-1].set_xlabel(f"time since the run began ({unit})")
        path = folder / f"curves-{group.name}.png"
        figure.savefig(path, dpi=_DOTS_PER_INCH)
        files.append(path)
    return files


def _time_unit(record: Record) -> tuple[str, float]:
    last = record.seconds
    if last < 300:
        return "seconds", 1.0
    return ("minutes", 60.0) if last < 3 * 3600 else ("hours", 3600.0)


def _draw_panel(plot: Axes, panel: Panel, record: Record, scale: float) -> None:
    plot.set_title(panel.title, fontsize=11, loc="left")
    plot.set_ylabel(panel.unit)
    plot.grid(visible=True, color="#DDDDDD", linewidth=0.7)
    plot.set_axisbelow(True)
    plot.margins(x=0.01)
    lines: list[tuple[str, str, list[tuple[float, float]]]] = []
    if panel.of_clients:
        for number, (label, field) in enumerate(panel.of_clients):
            lines.append((label, _NODE_COLOURS[number], _client_points(record, field)))
    else:
        for number, name in enumerate(record.node_names):
            colour = _NODE_COLOURS[number % len(_NODE_COLOURS)]
            lines.append((f"node {name}", colour, _node_points(record, name, panel)))
    if panel.title == "Resident memory":
        lines.append(("the clients", "#888888", _client_points(record, "rss_bytes")))
    for number, (label, colour, points) in enumerate(lines):
        at = [time / scale for time, _ in points]
        values = [value for _, value in points]
        # Equal values would hide each other: what is drawn first is wider.
        width = 1.2 + 0.6 * (len(lines) - 1 - number) if len(lines) < 5 else 1.4
        style = "steps-post" if panel.title == "Role" else "default"
        plot.plot(
            at, values, color=colour, label=label, linewidth=width, alpha=0.9, drawstyle=style
        )
    if panel.is_logarithmic and any(value > 0 for _, _, points in lines for _, value in points):
        plot.set_yscale("log")
        plot.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    elif panel.title == "Role":
        plot.set_yticks([-1, 0, 1, 2], ["witness", "follower", "candidate", "leader"])
    else:
        _fit_from_zero(plot, lines)
    if lines:
        plot.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize=9)


def _fit_from_zero(plot: Axes, lines: Sequence[tuple[str, str, list[tuple[float, float]]]]) -> None:
    """Begin at zero: a curve that looks steep there is steep."""
    top = max(
        (value for _, _, points in lines for _, value in points if not isnan(value)), default=0
    )
    plot.set_ylim(0, top * 1.12 or 1)


def _client_points(record: Record, field: str) -> list[tuple[float, float]]:
    points = []
    for sample in record.clients:
        value: Any = getattr(sample, field)
        if value is None:
            value = float("nan")
        elif field in {"confirms", "deliveries"}:
            value = value / sample.seconds if sample.seconds else float("nan")
        elif field == "rss_bytes":
            value = value / _MIB
        points.append((sample.at, float(value)))
    return points


def _node_points(record: Record, name: str, panel: Panel) -> list[tuple[float, float]]:
    samples = record.of_node(name)
    if panel.of_node is None:
        points = _lag_points(record, samples)
    elif panel.title == "Processor":
        points = _processor_points(samples)
    else:
        found = [(sample.at, panel.of_node(sample)) for sample in samples]
        points = [(at, value) for at, value in found if value is not None]
    return _with_breaks(points)


def _with_breaks(points: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Put a hole where samples are missing, so that no line is drawn through it."""
    if len(points) < 3:
        return points
    steps = sorted(b[0] - a[0] for a, b in pairwise(points))
    longest = _GAP_SAMPLES * steps[len(steps) // 2]
    broken = [points[0]]
    for before, point in pairwise(points):
        if point[0] - before[0] > longest:
            broken.append((before[0], float("nan")))
        broken.append(point)
    return broken


def _processor_points(samples: list[NodeSample]) -> list[tuple[float, float]]:
    return [
        (after.at, (after.cpu_seconds - before.cpu_seconds) / (after.at - before.at) * 100)
        for before, after in pairwise(samples)
        if before.pid == after.pid and after.at > before.at
    ]


def _lag_points(record: Record, samples: list[NodeSample]) -> list[tuple[float, float]]:
    """How far this node's commit index is behind the highest that any node told by then."""
    told = sorted((s.at, s.commit_index) for s in record.nodes if s.commit_index is not None)
    points, highest, position = [], 0, 0
    for sample in samples:
        while position < len(told) and told[position][0] <= sample.at:
            highest = max(highest, told[position][1])
            position += 1
        if sample.commit_index is not None:
            points.append((sample.at, float(max(0, highest - sample.commit_index))))
    return points


def _mark_faults(plot: Axes, record: Record, scale: float) -> None:
    """A line where a fault began, a shade until the cluster was whole again."""
    for mark in record.faults:
        colour = _fault_colour(mark)
        at = mark.at / scale
        plot.axvspan(at, (mark.at + mark.seconds) / scale, color=colour, alpha=0.08, linewidth=0)
        plot.axvline(at, color=colour, linewidth=1.0, linestyle="--", alpha=0.8)


def _name_faults(strip: Axes, record: Record, scale: float) -> None:
    """Write their names into a strip of their own, where no curve is under them."""
    strip.set_ylim(0, 1)
    strip.yaxis.set_visible(False)
    strip.xaxis.set_visible(False)
    for side in ("left", "right", "top", "bottom"):
        strip.spines[side].set_visible(False)
    for mark in record.faults:
        strip.annotate(
            f"{mark.fault} {mark.node}",
            xy=(mark.at / scale, 0.0),
            rotation=90,
            ha="center",
            va="bottom",
            fontsize=8,
            color=_fault_colour(mark),
        )


def _fault_colour(mark: FaultMark) -> str:
    return _FAULT_COLOURS.get(mark.fault.split()[0], "#606060")
