"""
How the unit tests are measured: what is done between two of them, and the floor it is held against.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import types
from pathlib import Path

import pytest
import slipcover
from slipcover.branch import preinstrument

from tests.measuring import LINES_TOLD, ProbesBetweenTests

ROOT = Path(__file__).parent.parent
MEASURED = (
    "def passed(times):\n    for _ in range(times):\n        pass\n" + "told = 1\n" * LINES_TOLD
)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="slipcover has no probes there")
def test_probes_are_taken_out_after_a_test_and_not_in_one() -> None:
    """A test that counts references, bytes or steps would find who takes them out."""
    measured_by = slipcover.Slipcover(branch=True)
    between = ProbesBetweenTests(measured_by)
    module = types.ModuleType("measured")
    measured_by.register_module(module)
    code = compile(preinstrument(ast.parse(MEASURED)), "/measured.py", "exec")
    exec(measured_by.instrument(code), module.__dict__)
    with_probes = module.passed.__code__

    module.passed(10_000)
    assert module.passed.__code__ is with_probes
    between.pytest_runtest_logfinish()
    assert module.passed.__code__ is not with_probes

    without = module.passed.__code__
    module.passed(10_000)
    between.pytest_runtest_logfinish()
    assert module.passed.__code__ is without
    [of_file] = measured_by.get_coverage()["files"].values()
    assert not of_file["missing_lines"]
    assert of_file["executed_branches"]


@pytest.mark.parametrize(("percent", "code"), [(100.0, 0), (0.0, 1)])
def test_what_is_covered_is_held_against_the_floor(
    tmp_path: Path, percent: float, code: int
) -> None:
    """Too little ends the run of `make test`, and says which number it is about."""
    covered = tmp_path / "covered.json"
    files = {str(it.relative_to(ROOT)): {} for it in (ROOT / "src/holdfast").rglob("*.py")}
    covered.write_text(json.dumps({"files": files, "summary": {"percent_covered": percent}}))
    line = [sys.executable, "tools/covered.py", str(covered)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == code
    what = f"{percent:.2f} % of the lines and branches of {len(files)} modules"
    assert what in ended.stdout
    assert ("fail-under" in ended.stdout) == bool(code)


def test_a_run_that_measured_nothing_is_no_full_cover(tmp_path: Path) -> None:
    """Of no modules at all, or of the wrong ones, slipcover says that all is covered."""
    covered = tmp_path / "covered.json"
    covered.write_text(json.dumps({"files": {}, "summary": {"percent_covered": 100.0}}))
    line = [sys.executable, "tools/covered.py", str(covered)]
    ended = subprocess.run(line, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 1
    assert "are not measured, src/holdfast/__init__.py among them" in ended.stdout
