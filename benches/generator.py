"""
The load generator: compiles `stompbench.c`, runs it, and judges what it says.

stompbench is one thread in C and counts loss, corruption and order itself. A run in which anything
was lost, corrupt, unconfirmed or refused is kept with its fault named and never enters a median.
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from machine import ROOT, load_average

SOURCES = [ROOT.parent / "shared" / "tools" / "stompbench.c", ROOT / "tools" / "stompbench.c"]
_MUST_BE_ZERO = ("lost", "corrupt", "unconfirmed")
_MUST_BE_ZERO_UNDISTURBED = (*_MUST_BE_ZERO, "foreign", "errors", "reconnects")
_IDLE_SECONDS = 6
_SPARE_SECONDS = 60.0


class GeneratorMissingError(RuntimeError):
    """There is no load generator; the sentence tells how to name one."""


@dataclass(frozen=True)
class Run:
    """One run of the generator: what it was asked, what it said, what was wrong with it."""

    command: str
    numbers: dict[str, Any]
    fault: str
    """Empty if all is well."""
    load_before: float

    @property
    def rate(self) -> float:
        """The slower of confirmed and delivered messages per second, of those that were asked."""
        rates = []
        if self.numbers.get("producers") and self.numbers.get("window"):
            rates.append(self.numbers.get("confirmed_s", 0.0))
        if self.numbers.get("consumers"):
            rates.append(self.numbers.get("delivered_s", 0.0))
        return float(min(rates, default=0.0))


class Generator:
    """stompbench, compiled once into a directory that the caller removes."""

    def __init__(self, directory: Path, given: Path | None = None) -> None:
        self.path = _compiled(directory, given)

    def run(
        self,
        addresses: str,
        pids: Sequence[int],
        arguments: Sequence[str],
        *,
        seconds: float,
        may_reconnect: bool = False,
        meanwhile: Callable[[], None] | None = None,
    ) -> Run:
        """Run once against brokers; `meanwhile` is called once the load has started."""
        command = [str(self.path), "-s", addresses, "--idle", str(_IDLE_SECONDS), "--json"]
        command += ["--pid", ",".join(map(str, pids)), *arguments]
        load = load_average()
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            if meanwhile is not None:
                meanwhile()
            out, err = process.communicate(timeout=seconds + _SPARE_SECONDS)
        except subprocess.TimeoutExpired:
            return Run(self._told(arguments), {}, "did not end in time", load)
        finally:
            if process.poll() is None:
                process.kill()
                process.communicate()
        numbers = json.loads(out) if out.startswith("{") else {}
        fault = _fault(numbers, process.returncode, err, may_reconnect=may_reconnect)
        return Run(self._told(arguments), numbers, fault, load)

    @staticmethod
    def _told(arguments: Sequence[str]) -> str:
        return shlex.join(["stompbench", *arguments])


def _fault(numbers: dict[str, Any], code: int, err: str, *, may_reconnect: bool) -> str:
    if not numbers:
        last = err.strip().splitlines()[-1:] or [f"exit code {code}"]
        return last[0].removeprefix("stompbench: ")
    counted = _MUST_BE_ZERO if may_reconnect else _MUST_BE_ZERO_UNDISTURBED
    wrong = [f"{name} {numbers[name]:,}" for name in counted if numbers.get(name)]
    if code and not wrong:
        wrong = [f"exit code {code}"]
    return ", ".join(wrong)


def _compiled(directory: Path, given: Path | None) -> Path:
    if given is not None and given.suffix != ".c":
        return given
    source = given or next((path for path in SOURCES if path.exists()), None)
    if source is None:
        raise GeneratorMissingError("stompbench.c is not there; name it by --stompbench PATH")
    program = directory / "stompbench"
    command = ["cc", "-O2", "-o", str(program), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise GeneratorMissingError(f"cc failed on {source}:\n{done.stderr}")
    return program
