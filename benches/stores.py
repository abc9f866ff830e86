"""
Each way to keep the log beside the others, and ActiveMQ beside them: how fast, how soon again.

One broker over each medium with one producer (window 1,000) and one consumer, 1 KiB, persistent.
All of them run all the time, so that they are warm, and are measured in turns: each once, then each
again. A run in which a message was lost or damaged does not count. Then the holder of a lease is
killed and paused, and the time without receipts is measured.

Run: make bench-stores [ARGS="--quick"], or .venv/bin/python benches/stores.py --help
"""

from __future__ import annotations

import argparse
import json
import signal
import statistics
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import takeovers
from activemq import ActiveMQ
from activemq_jdbc import ActiveMQOnPostgresql
from brokers import Broker, BrokerError
from document import STORES, put_section, stores
from generator import Generator, GeneratorMissingError
from machine import heading, print_told
from media import MEDIA, Kept, Medium, Servers
from options import table_options
from report import number
from takeovers import KILLED, SETTINGS, SILENT, Takeovers

from holdfast.testing.local_cluster import LocalNodeError
from trials.databases.server import ServerFailedError

_OTHERS: tuple[type[ActiveMQ], ...] = (ActiveMQ, ActiveMQOnPostgresql)
_RUNS, _SECONDS, _TAKEOVERS = 5, 3.0, 5
_RUNS_QUICK, _SECONDS_QUICK, _TAKEOVERS_QUICK = 1, 1.5, 1
_WARM_SECONDS, _WARM_SECONDS_JAVA = 2.0, 6.0
"""Once each; a virtual machine compiles while it runs."""
_IDLE_SECONDS = 2.0
_RATE = "msg/s"
_KILL_REACH, _KILL_AIM = 1.0, 0.3
_SILENCE_REACH = 1.0
"""Beyond the lease."""


@dataclass
class Rates:
    """What one broker did, a value for each round; 0 for one that does not count."""

    title: str
    per_second: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def counted(self) -> list[float]:
        """The rates of the rounds that count."""
        return [each for each in self.per_second if each]


@dataclass
class Results:
    """All that was measured, by the name of the medium or of the other broker."""

    rates: dict[str, Rates] = field(default_factory=dict)
    takeovers: dict[str, Takeovers] = field(default_factory=dict)
    told: dict[str, str] = field(default_factory=dict)

    @property
    def has_faults(self) -> bool:
        """Whether anything of Holdfast's failed."""
        ours = {medium.name for medium in MEDIA}
        return any(it.faults for name, it in self.rates.items() if name in ours) or any(
            it.faults for it in self.takeovers.values()
        )

    def shares(self, name: str, of: str) -> list[float]:
        """The rates as shares of another one's in the same rounds."""
        if of not in self.rates:
            return []
        pairs = zip(self.rates[name].per_second, self.rates[of].per_second, strict=False)
        return [own / other for own, other in pairs if own and other]


class Bench:
    """One measurement from start to end."""

    def __init__(self, given: argparse.Namespace, directory: Path, stack: ExitStack) -> None:
        self.given = given
        self.directory = directory
        self.results = Results()
        self._stack = stack
        self._servers = Servers(stack)
        self._generator = Generator(directory, given.stompbench)
        self._brokers: list[Broker] = []
        self._serial = 0

    def measure(self) -> None:
        """Start all brokers, measure them in turns, end them, and lose holders."""
        with ExitStack() as brokers:
            self._start(brokers)
            self.results.told["busy while nobody sends"] = (
                f"{_busy_share() * 100:.0f} % of all cores"
            )
            for turn in range(-1, self.given.runs):
                for broker in self._brokers:
                    self._run(broker, turn)
        for medium in self._chosen():
            if medium.name in takeovers.MEDIA_TAKEN and not medium.missing():
                self._lose_holders(medium)

    def _chosen(self) -> list[Medium]:
        return [medium for medium in MEDIA if medium.name in self.given.medium]

    def _start(self, brokers: ExitStack) -> None:
        for medium in self._chosen():
            rates = self.results.rates[medium.name] = Rates(medium.title)
            if reason := medium.missing():
                rates.faults.append(reason)
                continue
            try:
                flags = medium.flags(self._servers, self.directory, medium.name)
                kept = Kept(self.directory / medium.name, medium, flags)
                self._brokers.append(brokers.enter_context(kept))
                self.results.told[medium.title] = kept.version_told()
            except (ServerFailedError, LocalNodeError) as error:
                rates.faults.append(_sentence(error))
        for other in _OTHERS:
            if other.name in self.given.medium:
                self._start_other(other, brokers)

    def _start_other(self, kind: type[ActiveMQ], brokers: ExitStack) -> None:
        rates = self.results.rates[kind.name] = Rates(kind.title)
        if reason := kind.missing():
            rates.faults.append(reason)
            return
        folder = self.directory / kind.name
        try:
            broker = (
                ActiveMQOnPostgresql(folder, 1, self._servers.postgresql[0].create("activemq"))
                if kind is ActiveMQOnPostgresql
                else kind(folder, 1)
            )
            self._brokers.append(brokers.enter_context(broker))
            self.results.told[kind.title] = kind.version()
        except (ServerFailedError, BrokerError) as error:
            rates.faults.append(_sentence(error))

    def _run(self, broker: Broker, turn: int) -> None:
        """One run; the one before the first round only warms it up."""
        warm_seconds = _WARM_SECONDS_JAVA if isinstance(broker, ActiveMQ) else _WARM_SECONDS
        seconds = warm_seconds if turn < 0 else self.given.seconds
        self._serial += 1
        shape = ["-p", "1", "-c", "1", "-W", "1000", "-T", f"{seconds:g}"]
        shape += ["-d", f"/queue/stores-{self._serial}"]
        run = self._generator.run(broker.address, broker.pids, shape, seconds=seconds * 4)
        words = run.fault or number(run.rate, _RATE)
        print(
            f"{broker.title:28} round {turn + 1}: {words}, load {run.load_before:.1f}", flush=True
        )
        if turn < 0:
            return
        rates = self.results.rates[broker.name]
        rates.per_second.append(0.0 if run.fault else run.rate)
        rates.cpu_seconds.append(float(run.numbers.get("broker_cpu_s_per_million", 0.0)))
        rates.faults += [run.fault] if run.fault else []

    def _lose_holders(self, medium: Medium) -> None:
        counts = {KILLED: self.given.takeovers, SILENT: self.given.takeovers}
        try:
            found = takeovers.measure(
                medium,
                self._servers,
                self.directory,
                counts,
                lambda words: print(words, flush=True),
            )
        except (ServerFailedError, LocalNodeError, TimeoutError) as error:
            found = Takeovers(faults=[_sentence(error)])
        self.results.takeovers[medium.name] = found


def _sentence(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _busy_share() -> float:
    """The share of the processors that is used now, by whomever."""

    def read() -> tuple[int, int]:
        fields = [*map(int, Path("/proc/stat").read_text().splitlines()[0].split()[1:9])]
        return sum(fields), fields[3] + fields[4]

    total, idle = read()
    time.sleep(_IDLE_SECONDS)
    total_now, idle_now = read()
    return 1 - (idle_now - idle) / max(1, total_now - total)


def rate_rows(results: Results) -> list[str]:
    """The table of speeds; of each that is held against another, its share below it."""
    heads = ["log in", "messages a second", "reach", "aim", *(it.title for it in _OTHERS)]
    rows = [_row([*heads, "CPU-s per million"]), _row(["---", *["---:"] * (len(heads))])]
    goals = {medium.name: medium for medium in MEDIA}
    for name, rates in results.rates.items():
        medium = goals.get(name)
        own = statistics.median(rates.counted or [0.0])
        cells = [rates.title, _told(rates.counted, _RATE, rates.faults)]
        is_direct = medium is not None and not medium.against
        cells += _goals(own, medium, _RATE) if medium and is_direct else ["", ""]
        cells += [_times(own, results.rates.get(other.name)) for other in _OTHERS]
        cells.append(f"{statistics.median(rates.cpu_seconds or [0.0]):.1f}")
        rows.append(_row(cells))
        if medium is not None and medium.against:
            shares = results.shares(name, medium.against)
            cells = [f"- its share of {goals[medium.against].title}", _told(shares, "x", [])]
            cells += _goals(statistics.median(shares or [0.0]), medium, "x")
            rows.append(_row([*cells, *[""] * (len(_OTHERS) + 1)]))
    return rows


def _goals(own: float, medium: Medium, unit: str) -> list[str]:
    return [
        f"{number(goal, unit)}: ×{own / goal:.2f}" if goal else ""
        for goal in (medium.reach, medium.aim)
    ]


def _times(own: float, other: Rates | None) -> str:
    if other is None or not other.counted or not own:
        return other.faults[0] if other is not None and other.faults else "-"
    return f"×{own / statistics.median(other.counted):.1f}"


def _told(values: list[float], unit: str, faults: list[str]) -> str:
    mark = f" FAILED: {'; '.join(sorted(set(faults)))}" if faults else ""
    if not values:
        return mark.strip() or "-"
    low, high = number(min(values), unit), number(max(values), unit)
    return f"{number(statistics.median(values), unit)} ({low} to {high}){mark}"


def takeover_rows(results: Results) -> list[str]:
    """The table of takeovers."""
    heads = ["log in", "times each", "holder killed", "reach", "aim"]
    heads += ["holder silent", "its lease", "reach"]
    rows = [_row(heads), _row(["---", *["---:"] * (len(heads) - 1)])]
    titles = {medium.name: medium.title for medium in MEDIA}
    for name, found in results.takeovers.items():
        killed, silent = found.seconds[KILLED], found.seconds[SILENT]
        faults = f" FAILED: {'; '.join(found.faults)}" if found.faults else ""
        lease = found.lease_seconds
        rows.append(
            _row(
                [
                    titles[name] + faults,
                    str(len(killed)),
                    _gap(killed),
                    *(f"{goal:g} s{_kept(killed, goal)}" for goal in (_KILL_REACH, _KILL_AIM)),
                    _gap(silent),
                    f"{lease:g} s",
                    f"{lease + _SILENCE_REACH:g} s{_kept(silent, lease + _SILENCE_REACH)}",
                ]
            )
        )
    return rows


def _gap(seconds: list[float]) -> str:
    if not seconds:
        return "-"
    return f"{statistics.median(seconds):.2f} s ({max(seconds):.2f} s)"


def _kept(seconds: list[float], goal: float) -> str:
    """How many of them were within a goal."""
    return f": {sum(each <= goal for each in seconds)} of {len(seconds)}" if seconds else ""


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def arguments() -> argparse.Namespace:
    names = [*(medium.name for medium in MEDIA), *(other.name for other in _OTHERS)]
    parser = table_options(__doc__, "medium", names, _RUNS)
    parser.add_argument("--seconds", type=float, help="length of one load (3; --quick: 1.5)")
    parser.add_argument("--takeovers", type=int, metavar="N",
                        help="how often a holder is lost in each way (5; --quick: 1)")  # fmt: skip
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every run")
    given = parser.parse_args()
    given.runs = given.runs or (_RUNS_QUICK if given.quick else _RUNS)
    given.seconds = given.seconds or (_SECONDS_QUICK if given.quick else _SECONDS)
    if given.takeovers is None:
        given.takeovers = _TAKEOVERS_QUICK if given.quick else _TAKEOVERS
    return given


def _write(given: argparse.Namespace, results: Results) -> None:
    rates, taken = "\n".join(rate_rows(results)), "\n".join(takeover_rows(results))
    print_told(results.told)
    print(f"\n{rates}\n\n{taken}")
    if given.write:
        text = stores(
            results.told, rates, taken,
            silence=SETTINGS.silence_seconds, answer=SETTINGS.answer_seconds,
        )  # fmt: skip
        put_section(given.write, STORES, text)
    if given.json:
        record: dict[str, Any] = asdict(results)
        given.json.write_text(json.dumps(record, indent=1))


def main() -> int:
    given = arguments()
    # Told to end, it ends its brokers and databases first.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    begin = time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="holdfast-stores-", dir=given.directory) as name,
        ExitStack() as stack,
    ):
        bench = Bench(given, Path(name), stack)
        results = bench.results
        results.told |= heading(Path(name))
        results.told["settings"] = f"{given.runs} run(s) of {given.seconds:g} s each, in turns"
        try:
            bench.measure()
        except KeyboardInterrupt:
            print("interrupted: what follows is what was measured until now")
    results.told["took"] = f"{time.monotonic() - begin:.0f} s"
    _write(given, results)
    return 1 if results.has_faults else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except GeneratorMissingError as missing:
        sys.exit(f"stores: {missing}")
