"""
An audit one of whose copies stops answering, at each question that it is asked in turn.

What was not looked at is neither missing nor sound: there is no verdict, and one sentence says why.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.errors import BusyError, HoldfastError, LinkLostError, RecordNotFoundError
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import DamagedRange, LogPosition
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.audit_result import AuditResult
from holdfast.spark.pipelines.replica_proof import Replica
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import WrittenLog, message

BODIES: Final = tuple(b"%d" % number * 2_000 for number in range(10, 60))
SEGMENT_BYTES: Final = 64 * 1024
"""Of most: the log has several."""


@dataclass
class Failing:
    """A log whose node fails at the question of a number, and answers none from then on."""

    log: LogDirectory
    number: int
    error: HoldfastError
    asked: list[str] = field(default_factory=list)

    def _ask(self, question: str) -> None:
        self.asked.append(question)
        if 0 < self.number <= len(self.asked):
            raise self.error

    def position(self) -> LogPosition:
        self._ask("position")
        return self.log.position()

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        self._ask(f"blocks {first_index}-{last_index}")
        yield from self.log.blocks(first_index, last_index)

    def queue_names(self) -> dict[int, str]:
        self._ask("names")
        return self.log.queue_names()

    def reach(self, from_index: int, bytes_max: int) -> int:
        self._ask("reach")
        return self.log.reach(from_index, bytes_max)


@dataclass(frozen=True)
class Copies:
    """Three copies of a log, one laid out anew and one behind, and the archive of it."""

    logs: dict[str, LogDirectory]
    archive: Archive

    def audited(self, failing: str, number: int, error: HoldfastError) -> tuple[int, AuditResult]:
        """Give how often the one was asked, and the result."""
        sources: dict[str, Any] = dict(self.logs)
        broken = sources[failing] = Failing(self.logs[failing], number, error)
        replicas = [Replica(name, source) for name, source in sources.items()]
        spark: Any = PaperSpark()
        result = audit(spark, replicas, self.archive, with_account=False)
        return len(broken.asked), result


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Copies:
    folder = tmp_path_factory.mktemp("copies")
    shapes = {
        "a": (SEGMENT_BYTES, 50),
        "anew": (2 * SEGMENT_BYTES, 50),
        "behind": (SEGMENT_BYTES, 35),
    }
    for name, (segment_bytes, count) in shapes.items():
        with WrittenLog(folder / name, segment_bytes=segment_bytes) as log:
            for sequence, body in enumerate(BODIES[:count], 1):
                log.put(message(1, sequence, body, b"", "p"))
    logs = {name: LogDirectory(str(folder / name)) for name in shapes}
    return Copies(logs, archived_log(logs["behind"], folder / "archive", per_range=10))


@pytest.mark.parametrize("failing", ["a", "anew", "behind"])
@pytest.mark.parametrize("error", [LinkLostError("no answer"), BusyError("others read")])
def test_there_is_no_verdict_without_all_answers(
    copies: Copies, failing: str, error: HoldfastError
) -> None:
    """A segment that cannot be asked for is not missing, and what was not compared not the same."""
    count, whole = copies.audited(failing, 0, error)
    assert whole.is_sound
    assert count > 3
    for number in range(1, count + 1):
        with pytest.raises(type(error), match=str(error)):
            copies.audited(failing, number, error)


@pytest.mark.parametrize("failing", ["a", "anew", "behind"])
def test_what_is_gone_as_it_is_asked_for_is_not_the_same(copies: Copies, failing: str) -> None:
    """A log that could not be held may be cleaned meanwhile: a finding then, or no verdict."""
    error = RecordNotFoundError("cleaned away")
    count, _ = copies.audited(failing, 0, error)
    for number in range(1, count + 1):
        try:
            _, result = copies.audited(failing, number, error)
        except RecordNotFoundError:
            continue
        assert not result.is_sound, f"question {number}"


def test_an_archive_that_is_not_given_once_is_not_called_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A log promoted by force ends inside an archived range, otherwise: that shows there alone.
    """
    for name, twice_from in (("a", 50), ("other", 30)):
        with WrittenLog(tmp_path / name) as log:
            for sequence in range(1, 36 if name == "other" else 50):
                body = b"%d" % sequence * (2 if sequence > twice_from else 1)
                log.put(message(1, sequence, body, b"", "p"))
    archive = archived_log(LogDirectory(str(tmp_path / "a")), tmp_path / "archive", per_range=10)
    opened: list[str] = []
    fails_at = 0
    open_input = Place.open_input

    def opening(place: Place, path: str) -> Any:
        opened.append(path)
        if len(opened) == fails_at:
            raise OSError("503 slow down")
        return open_input(place, path)

    monkeypatch.setattr(Place, "open_input", opening)
    spark: Any = PaperSpark()
    replica = Replica("other", LogDirectory(str(tmp_path / "other")))

    def kinds() -> set[str]:
        opened.clear()
        return {it.kind for it in audit(spark, [replica], archive, with_account=False).findings}

    assert kinds() == {"diverged"}
    for number in range(1, len(opened) + 1):
        fails_at = number
        try:
            found = kinds()
        except OSError as error:
            assert "503" in str(error)  # noqa: PT017 - either it ends, or it tells
        else:
            assert "unreadable" in found, f"opening {number}"
