"""The contract of leased logs, kept by a directory."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.journal.entry import HEADER_BYTES, entry_bytes, parse_header
from holdfast.leases.contract import LeasedLog
from holdfast.shared.settings import SharedSettings
from holdfast.shared.shared_log import SharedLog
from tests.stores.broker_suite import BrokerSuite
from tests.stores.copied_log_suite import CopiedLogSuite
from tests.stores.leased_log_suite import SECONDS

KIB = 1024


class TestSharedDirectory(BrokerSuite, CopiedLogSuite):
    """One directory on the machine's own disk, a handle for each process."""

    @pytest.fixture(autouse=True)
    def directory(self, tmp_path: Path) -> None:
        self._path = tmp_path / "shared"

    def another(self) -> LeasedLog:
        settings = SharedSettings(segment_bytes=64 * KIB, first_segment_bytes=16 * KIB)
        return SharedLog(self._path, settings)

    def lose_entry(self, index: int) -> None:
        self._change(index, lambda raw: bytes(len(raw)))

    def rot_entry(self, index: int) -> None:
        self._change(index, lambda raw: raw[:80] + bytes([raw[80] ^ 1]) + raw[81:])

    def lose_lease(self) -> None:
        (self._path / "current").unlink()

    def _change(self, index: int, change) -> None:
        # What nobody has called sure yet and is not whole was being written: it is no damage.
        self._opened[0].renew(SECONDS)
        (path,) = (self._path / "journal").iterdir()
        data = bytearray(path.read_bytes())
        offset = 4096
        while (header := parse_header(data, offset)).entry_index < index:
            offset += entry_bytes(header.body_length)
        size = entry_bytes(header.body_length)
        assert size > HEADER_BYTES
        data[offset : offset + size] = change(bytes(data[offset : offset + size]))
        path.write_bytes(data)
