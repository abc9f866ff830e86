"""
A place whose files are fetched whole, once: for who reads each of them several times in a row.

Merging compares a file with its digest, looks into it for names, and rebuilds its entries. In an
object store that were eight requests for a small file, and the second and third reading would have
to be right by luck: what is fetched once is what was compared.

Owned by one task; it is not sent to another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store_answers import asked_again

FETCHED_BYTES_MAX: Final = 128 * 1024 * 1024
"""Of all files together; what is beyond is read from where it lies. A merge takes half of it."""


@dataclass(frozen=True, slots=True)
class FetchedPlace(Place):
    """A place of which files that were opened are held in memory."""

    fetched: dict[str, pa.Buffer] = field(default_factory=dict, compare=False, repr=False)

    def open_input(self, path: str) -> pa.NativeFile:
        """
        Open a file for reading from any place in it.

        Raises:
            FileNotFoundError: It is not there.
            OSError: The store does not give it.
        """
        if path not in self.fetched:
            source = Place.open_input(self, path)
            if source.size() + sum(it.size for it in self.fetched.values()) > FETCHED_BYTES_MAX:
                return source
            with source:
                self.fetched[path] = asked_again(source.read_buffer)
        return pa.BufferReader(self.fetched[path])

    def has(self, path: str) -> bool:
        """Whether there is, or was when it was fetched, a file of this path."""
        return path in self.fetched or Place.has(self, path)


def fetched(place: Place) -> Place:
    """Give the place to read from several times; files of this machine are near already."""
    return place if place.local_folder is not None else FetchedPlace(place.uri, place.options)
