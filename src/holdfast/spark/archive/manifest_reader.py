"""
What an archive says of itself at this moment: its manifests, found, read and added up.

Whoever looks again and again, as an archiver does, lists the manifests each time and reads those
that are new: a file of the same name, size and time as before is the file that was read. So a look
at an archive of any length costs a request or two. The first look is spared most of them by the
snapshot (`manifest_snapshot.py`); who proves, or lets something go, reads all of them.

A manifest that a listing lacks makes an archive that looks whole and is shorter. So the first
listing is not believed until another one lacks nothing of it, and a later one not at once if it
lacks what was there before.

Owned by one thread.
"""

from __future__ import annotations

import posixpath
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

from holdfast.errors import ArchiveError, LaterArchiveError, UnreadableArchiveError
from holdfast.spark.archive.manifest_snapshot import (
    SNAPSHOT_NAME,
    Known,
    Stamp,
    decode_snapshot,
    encode_snapshot,
    is_due,
    is_of_later,
)
from holdfast.spark.archive.manifests import (
    Break,
    Catalogue,
    Manifest,
    decode_manifest,
    is_named_otherwise,
    range_of_name,
    resolve,
)
from holdfast.spark.archive.places import FoundFile, Place
from holdfast.spark.log.source import NO_CHAIN

MANIFESTS: Final = "_holdfast"
_READERS: Final = 16
"""So many manifests are asked for at once: an object store answers each in some 10 ms."""

READS_AGAIN_MAX: Final = 4
"""How often a file that makes no sense is read again, as long as other bytes come each time."""

_LOOKS_MAX: Final = 10
"""How often the manifests are listed again when one is merged while they are read."""


@dataclass(frozen=True, slots=True)
class Look:
    """What one listing showed."""

    files: tuple[FoundFile, ...]
    """All that stands beside the manifests, too."""

    known: Known
    """Every manifest that can be read, by its file."""

    catalogue: Catalogue
    """What they add up to."""


class ManifestReader:
    """Reads the manifests of one archive, each once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._known: Known | None = None
        """What was read; None: nothing yet."""

        self._seen: frozenset[str] | None = None
        """The paths of what was there last; None: nobody has looked yet."""

        self._snapshot: frozenset[Stamp] = frozenset()
        """What the archive's snapshot has, as far as it was seen."""

        self._is_snapshot_later = False

    def look(self, *, proving: bool = False) -> Look:
        """
        List the manifests, and read what is new.

        Args:
            proving: Read every one of them, whatever is known of it.

        Raises:
            LaterArchiveError: One is of a later version of Holdfast.
            UnreadableArchiveError: The store gives one otherwise each time.
            ArchiveError: They change faster than they can be read.
        """
        for _ in range(_LOOKS_MAX):
            with suppress(FileNotFoundError):  # merged meanwhile: what replaces it is there now
                return self._look({} if proving else self._spared())
        raise self._never_still()

    def catalogue(self) -> Catalogue:
        """Give what the manifests add up to; raises what `look` raises."""
        return self.look().catalogue

    def end(self) -> tuple[int, str]:
        """
        Give the last entry that any manifest names and the chain after it; (0, "") if none does.

        Of those that are not known it reads the ones that end there, however many there are.

        Raises:
            ArchiveError: One of them is not as it was written, or is of another log than the other;
                or they change too fast.
        """
        for _ in range(_LOOKS_MAX):
            stamps = [_stamp(it) for it in self._listed()]
            spans = {it: span for it in stamps if (span := range_of_name(it[0])) is not None}
            if not spans:
                return 0, NO_CHAIN
            end = max(last for _, last in spans.values())
            with suppress(FileNotFoundError):  # merged meanwhile
                return self._end_of([it for it, span in spans.items() if span[1] == end])
        raise self._never_still()

    def expect(self, manifest: Manifest) -> None:
        """Know of a manifest that was just published: a listing without it is not believed."""
        if self._seen is not None:
            self._seen |= {f"{MANIFESTS}/{manifest.name}"}

    def renew_snapshot(self) -> bool:
        """
        Write the snapshot of all manifests anew if many are not in it; gives whether it did.

        That of a later version of Holdfast is left alone.

        Raises:
            OSError: It cannot be written; nothing is lost without it.
        """
        self._spared()
        if self._is_snapshot_later:
            return False
        found = self.look()
        if not is_due(len(found.known), len(found.known.keys() - self._snapshot)):
            return False
        self._place.publish(f"{MANIFESTS}/{SNAPSHOT_NAME}", encode_snapshot(found.known))
        self._snapshot = frozenset(found.known)
        return True

    def _spared(self) -> Known:
        """What need not be read again: of the first look what the archive's snapshot has."""
        if self._known is None:
            try:
                data = self._place.read(f"{MANIFESTS}/{SNAPSHOT_NAME}")
            except OSError:
                data = b""
            self._is_snapshot_later = is_of_later(data)
            self._known = decode_snapshot(data)
            self._snapshot = frozenset(self._known)
        return self._known

    def _listed(self) -> list[FoundFile]:
        found = self._place.files_at_once(MANIFESTS, self._seen)
        self._seen = frozenset(it.path for it in found)
        return found

    def _look(self, spared: Known) -> Look:
        listed = self._listed()
        self._check_otherwise_named(listed)
        spans = {it: range_of_name(_stamp(it)[0]) for it in listed}
        stamps = {it: _stamp(it) for it, span in spans.items() if span is not None}
        known = {stamp: spared[stamp] for stamp in stamps.values() if stamp in spared}
        unknown = [it for it, stamp in stamps.items() if stamp not in known]
        unreadable = []
        with ThreadPoolExecutor(_READERS) as readers:
            contents = readers.map(self._place.read, [it.path for it in unknown])
            for file, content in zip(unknown, contents, strict=True):
                stamp, span = stamps[file], spans[file]
                assert span is not None, "it has a stamp"
                try:
                    known[stamp] = decoded_manifest(self._place, file.path, content)
                except (LaterArchiveError, UnreadableArchiveError):
                    raise
                except ArchiveError as error:
                    unreadable.append(Break("manifest", *span, str(error)))
        self._known = dict(known)
        return Look(tuple(listed), known, resolve(known.values(), unreadable))

    def _check_otherwise_named(self, listed: list[FoundFile]) -> None:
        """
        Look whether a file beside the manifests is one by a name that only a later program knows.

        Raises:
            LaterArchiveError: It is.
        """
        for file in listed:
            name = posixpath.basename(file.path)
            if is_named_otherwise(name):
                try:
                    decode_manifest(self._place.read(file.path), name)
                except LaterArchiveError:
                    raise
                except ArchiveError:
                    continue  # somebody's notes, or what is no manifest any more

    def _end_of(self, stamps: list[Stamp]) -> tuple[int, str]:
        """Where manifests end that end with the same entry."""
        first, *others = [self._read(it) for it in stamps]
        for each in others:
            if (each.cluster_id, each.chain_after) != (first.cluster_id, first.chain_after):
                raise ArchiveError(
                    f"two archivers wrote different logs to {self._place}: {first.name} and"
                    f" {each.name} do not fit together. Move away the one that does not belong"
                    f" there"
                )
        return first.last_index, first.chain_after

    def _read(self, stamp: Stamp) -> Manifest:
        known = self._known if self._known is not None else {}
        if stamp not in known:
            path = f"{MANIFESTS}/{stamp[0]}"
            known[stamp] = decoded_manifest(self._place, path, self._place.read(path))
        return known[stamp]

    def _never_still(self) -> ArchiveError:
        return ArchiveError(f"the manifests of {self._place} vanish while they are read; try again")


def decoded_manifest(place: Place, path: str, content: bytes) -> Manifest:
    """
    Give the manifest that was read; one that makes no sense is read once more.

    A store may err, and an archive that is not whole ends who archives. So a manifest is called
    damaged only if the same bytes come again.

    Raises:
        LaterArchiveError: It is of a format that only a later program knows.
        UnreadableArchiveError: It comes otherwise each time it is read.
        ArchiveError: It is not as it was written.
    """
    name = posixpath.basename(path)
    for _ in range(READS_AGAIN_MAX):
        try:
            return decode_manifest(content, name)
        except LaterArchiveError:
            raise
        except ArchiveError:
            again = place.read(path)
            if again == content:
                raise
            content = again
    raise UnreadableArchiveError("it comes otherwise each time it is read", path=path)


def _stamp(file: FoundFile) -> Stamp:
    return posixpath.basename(file.path), file.size, file.modified_at
