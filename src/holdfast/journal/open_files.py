"""
The segment files that are open for reading: a bounded number, the oldest closed for the next.

Where the process has no descriptor left, one of these is given up for the one that is needed.

Owned by whoever owns the journal: the loop.
"""

from __future__ import annotations

from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.disk import Disk, DiskFile
from holdfast.journal.segment import Segment


class OpenFiles:
    """Handles by the base index of their segment."""

    __slots__ = ("_count_max", "_disk", "_files")

    def __init__(self, disk: Disk, count_max: int) -> None:
        self._disk = disk
        self._count_max = count_max
        self._files: dict[int, DiskFile] = {}

    def __len__(self) -> int:
        return len(self._files)

    def get(self, segment: Segment) -> DiskFile:
        """
        Give the file of a segment, opened if it is not open.

        Raises:
            OSError: It cannot be opened.
        """
        file = self._files.get(segment.base_index)
        if file is None:
            if len(self._files) >= self._count_max:
                self.close(next(iter(self._files)))
            file = self._files[segment.base_index] = self._open(segment)
        return file

    def close(self, base_index: int) -> None:
        """Close the file of a segment, if it is open."""
        file = self._files.pop(base_index, None)
        if file is not None:
            file.close()

    def close_after(self, index: int) -> None:
        """Close the files of all segments that begin after entry `index`."""
        for base in [base for base in self._files if base > index]:
            self.close(base)

    def _open(self, segment: Segment) -> DiskFile:
        while True:
            try:
                return self._disk.open(segment.path, writable=False)
            except OSError as error:
                if not self._files or not is_out_of_descriptors(error):
                    raise
                self.close(next(iter(self._files)))
