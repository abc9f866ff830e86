"""
What runs have shown, kept as JSON in build/evidence so that the table is written from it alone.

Every record says which product it is about: a digest of the product's source files, the commit and
the date. A record of another product proves nothing about this one, and the table says so.

Invariants:
    A file is replaced whole or not at all; a folder that was deleted meanwhile is made again.
    Nothing here is written by hand: each record is what a run returned.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import holdfast
from holdfast.environment.clock import SystemClock

REPOSITORY = Path(__file__).parent.parent.parent
EVIDENCE = REPOSITORY / "build" / "evidence"
_SOURCES = Path(holdfast.__file__).parent
LEVELS = {
    "tests/integration": "processes",
    "tests/conformance": "processes",
    "tests/simulation": "simulator",
    "tests/transcripts": "simulator",
}
"""What kind of test stands in a folder; all others are tests of a part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stamp:
    """Which product a record is about, and when it was made."""

    product: str
    """Digest of the sources; empty where the run did not say."""
    commit: str
    date: str

    @property
    def is_current(self) -> bool:
        """Whether the product of today is the one that was tried."""
        return self.product == product_digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkedTest:
    """The outcome of one test that carries the marker, all its parameters together."""

    name: str
    faults: tuple[str, ...]
    outcome: str
    """passed, failed or skipped."""
    level: str
    """processes, simulator or part."""
    accounts: tuple[dict[str, Any], ...]
    """What loads of the test found, where it had any."""
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class SimulatedRuns:
    """What came of all seeds of one simulated scenario."""

    name: str
    seeds: int
    broken: tuple[str, ...]
    """`seed: violation` of those that broke a promise."""
    missing: tuple[str, ...]
    """Trouble of the scenario that never happened in any seed."""
    confirms: int
    deliveries: int
    duplicates: int
    elections: int
    seconds: float
    """Of virtual time."""
    faults: dict[str, int]
    stamp: Stamp


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverTimes:
    """The leader lost again and again: how long nothing was confirmed, each time."""

    how: str
    """killed or silent."""
    gaps_ms: tuple[float, ...]
    cores: int
    lost: int
    unflagged: int
    confirmed: int
    duplicates: int
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that is known."""

    tests: dict[str, MarkedTest] = field(default_factory=dict)
    simulations: dict[str, SimulatedRuns] = field(default_factory=dict)
    chaos: tuple[tuple[dict[str, Any], Stamp], ...] = ()
    """Scenarios of chaos reports, as the reports have them."""
    failover: dict[str, FailoverTimes] = field(default_factory=dict)
    """By how the leader was lost."""


@cache
def product_digest() -> str:
    """Name the product by its sources; what tests it is left out."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted(_SOURCES.rglob("*.py")):
        name = path.relative_to(_SOURCES).as_posix()
        if not name.startswith("testing/"):
            digest.update(name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _git(*arguments: str) -> str:
    try:
        answer = subprocess.run(  # noqa: S603 - fixed words
            ["git", *arguments],  # noqa: S607 - the developer's git
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        return ""
    return answer.stdout.strip()


@cache
def commit() -> str:
    """Name the commit; a plus says that the product's files differ from it."""
    name = _git("rev-parse", "--short=7", "HEAD")
    if not name:
        return "no commit"
    changed = _git("status", "--porcelain", "--", "src/holdfast", ":!src/holdfast/testing")
    return f"{name}+" if changed else name


def stamp() -> Stamp:
    """Say which product is tried now."""
    micros = SystemClock().wall_microseconds()
    date = datetime.fromtimestamp(micros / 1e6, UTC).strftime("%Y-%m-%d")
    return Stamp(product=product_digest(), commit=commit(), date=date)


# Files --------------------------------------------------------------------------------------------


def write_json(path: Path, value: object) -> None:
    """Replace a file whole; its folder is made if it is not there."""
    text = json.dumps(value, indent=1, sort_keys=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    for _ in range(3):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            temporary.write_text(text, encoding="utf-8")
            temporary.replace(path)
        except FileNotFoundError:
            continue  # Somebody deletes the folder: once more.
        return


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time read and write again."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _stamp_of(record: dict[str, Any]) -> Stamp:
    return Stamp(**record.pop("stamp"))


# Tests --------------------------------------------------------------------------------------------


def level_of(name: str) -> str:
    """Say what kind of test this is, by its folder."""
    return next((kind for place, kind in LEVELS.items() if name.startswith(place + "/")), "part")


def does_test_exist(name: str) -> bool:
    """Whether `path::test` is in the repository."""
    path, _, function = name.partition("::")
    file = REPOSITORY / path
    if not file.is_file():
        return False
    text = file.read_text(encoding="utf-8")
    return f"def {function.rpartition('::')[2]}(" in text


def save_tests(records: Iterable[MarkedTest], folder: Path = EVIDENCE) -> None:
    """Put the outcomes of a run beside those of earlier runs of other tests."""
    fresh = {record.name: asdict(record) for record in records}
    if not fresh:
        return
    with _locked(folder):
        path = folder / "tests.json"
        known = _read_json(path)
        write_json(path, {**(known if isinstance(known, dict) else {}), **fresh})


def _load_tests(folder: Path) -> dict[str, MarkedTest]:
    found = {}
    for name, record in (_read_json(folder / "tests.json") or {}).items():
        made = MarkedTest(
            stamp=_stamp_of(record),
            **{
                **record,
                "faults": tuple(record["faults"]),
                "accounts": tuple(record["accounts"]),
            },
        )
        if does_test_exist(name):
            found[name] = made
    return found


# Simulations --------------------------------------------------------------------------------------


def save_simulations(records: Sequence[SimulatedRuns], folder: Path = EVIDENCE) -> None:
    """
    Keep what came of scenarios.

    Fewer seeds do not replace more of the same product, unless they found something.
    """
    with _locked(folder):
        path = folder / "simulations.json"
        known = _read_json(path)
        kept: dict[str, Any] = known if isinstance(known, dict) else {}
        for record in records:
            earlier = kept.get(record.name)
            if (
                earlier is None
                or earlier["stamp"]["product"] != record.stamp.product
                or earlier["seeds"] <= record.seeds
                or record.broken
            ):
                kept[record.name] = asdict(record)
        write_json(path, kept)


def _load_simulations(folder: Path) -> dict[str, SimulatedRuns]:
    return {
        name: SimulatedRuns(
            stamp=_stamp_of(record),
            **{
                **record,
                "broken": tuple(record["broken"]),
                "missing": tuple(record["missing"]),
            },
        )
        for name, record in (_read_json(folder / "simulations.json") or {}).items()
    }


# Chaos --------------------------------------------------------------------------------------------


def newest_source_seconds() -> float:
    """When a file of the product was changed last, in seconds since the epoch."""
    return max(
        path.stat().st_mtime
        for path in _SOURCES.rglob("*.py")
        if not path.relative_to(_SOURCES).as_posix().startswith("testing/")
    )


def save_chaos(report: Path, folder: Path = EVIDENCE) -> int:
    """
    Keep a chaos report's scenarios; give how many.

    A report that was begun before the newest change of a source is about another product.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no report.
    """
    told = json.loads(report.read_text(encoding="utf-8"))
    scenarios = told["scenarios"]
    now = stamp()
    seconds = sum(float(each.get("seconds", 0)) for each in scenarios)
    is_of_today = report.stat().st_mtime - seconds >= newest_source_seconds()
    record = {
        "product": now.product if is_of_today else "",
        "commit": told.get("commit") or (now.commit if is_of_today else "an earlier commit"),
        "date": str(told.get("started", now.date))[:10],
    }
    save_scenarios(report.resolve().parent.name, scenarios, Stamp(**record), folder)
    return len(scenarios)


def save_scenarios(
    report: str, scenarios: Sequence[dict[str, Any]], made: Stamp, folder: Path = EVIDENCE
) -> None:
    """Keep chaos scenarios under the name of their report; an earlier one of that name goes."""
    with _locked(folder):
        known = _read_json(folder / "chaos.json")
        kept = [each for each in known or [] if each["report"] != report]
        kept.append({"report": report, "stamp": asdict(made), "scenarios": list(scenarios)})
        write_json(folder / "chaos.json", kept)


def _load_chaos(folder: Path) -> tuple[tuple[dict[str, Any], Stamp], ...]:
    """Give the scenarios of this product's reports, or those of the newest one if there is none."""
    reports = [(each, Stamp(**each["stamp"])) for each in _read_json(folder / "chaos.json") or []]
    chosen = [(each, made) for each, made in reports if made.is_current] or reports[-1:]
    return tuple((scenario, made) for each, made in chosen for scenario in each["scenarios"])


# Failover times -----------------------------------------------------------------------------------


def save_failover(record: FailoverTimes, folder: Path = EVIDENCE) -> None:
    """Keep the last measurement of its kind."""
    with _locked(folder):
        path = folder / "failover.json"
        known = _read_json(path)
        kept = known if isinstance(known, dict) else {}
        write_json(path, {**kept, record.how: asdict(record)})


def _load_failover(folder: Path) -> dict[str, FailoverTimes]:
    return {
        how: FailoverTimes(
            stamp=_stamp_of(record), **{**record, "gaps_ms": tuple(record["gaps_ms"])}
        )
        for how, record in (_read_json(folder / "failover.json") or {}).items()
    }


def forget(source: str, folder: Path = EVIDENCE) -> None:
    """Forget what is known from `tests`, `simulations`, `chaos` or `failover`."""
    with _locked(folder):
        (folder / f"{source}.json").unlink(missing_ok=True)


def load(folder: Path = EVIDENCE) -> Evidence:
    """Read all that was kept; what cannot be read is as if it had not been run."""
    return Evidence(
        tests=_load_tests(folder),
        simulations=_load_simulations(folder),
        chaos=_load_chaos(folder),
        failover=_load_failover(folder),
    )
