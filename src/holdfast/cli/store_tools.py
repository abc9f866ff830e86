"""
`holdfast store`: what is done with a log without a node.

`verify` and `dump` only read, take no lock, and work on a stopped node's directory, on a copy,
beside a running node, and on a log that is kept elsewhere (see `media`). `take-back` and
`give-up-older` change a directory, so its node must be stopped. Exit code 0: nothing that was
stored is damaged. 1: something is, and each place is told. 2: the command or the place was wrong.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Literal

import typer

from holdfast.cli.hidden_passwords import hide_places
from holdfast.cli.log_files import LogFiles, Verification, Visit
from holdfast.cli.log_rows import ROW_HEADER, Row, queue_names, row_text, rows_of
from holdfast.cli.media import PLACE_VARIABLE, MediumLog, entries_progress, untold, verify_media
from holdfast.cli.output import (
    format_size,
    json_line,
    watched_console,
    write_error,
    write_json,
    write_line,
    write_lines,
)
from holdfast.cli.store_copy import store_copy
from holdfast.copying.places import parse_place, require_not_shared
from holdfast.copying.reading import LostEntries
from holdfast.environment.disk import DiskLock, RealDisk
from holdfast.environment.lock_holder import in_use
from holdfast.errors import ConfigError, DestinationError, StoreError
from holdfast.journal.damage import Damage
from holdfast.journal.entry import Entry
from holdfast.journal.filling import utc
from holdfast.journal.kept_log import give_up_older, require_kept, take_back
from holdfast.mirrors.found import peek
from holdfast.mirrors.opening import is_of_a_set
from holdfast.mirrors.set_file import FILE_NAME as SET_FILE_NAME
from holdfast.model.destination import parse_destination

EXIT_DAMAGED = 1

store = typer.Typer(
    no_args_is_help=True, help="Where a log is kept: verify, dump, copy, take back."
)

PlaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="PLACE",
        envvar=PLACE_VARIABLE,
        show_envvar=False,
        help="A data directory or a copy of one, shared:DIR, a database's address, or 'URL URL'.",
    ),
]
DirectoryArgument = Annotated[
    Path, typer.Argument(metavar="DIR", help="A data directory, or a copy of one.")
]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    store.command("copy")(store_copy)
    app.add_typer(store, name="store")


@store.command("verify")
def verify(
    place: PlaceArgument,
    json: Annotated[bool, typer.Option("--json", help="Write JSON for programs.")] = False,
) -> None:
    """Check every checksum and every link of the chain."""
    hide_places({PLACE_VARIABLE: place})
    if media := _media(place):
        if not verify_media(media, as_json=json):
            raise typer.Exit(EXIT_DAMAGED)
        return
    files = LogFiles(Path(place))
    with _progress("verifying") as visit:
        found = files.verify(visit)
    if json:
        write_json(_verification_json(found))
    else:
        _tell(found)
    if not found.is_clean:
        raise typer.Exit(EXIT_DAMAGED)


def _media(place: str) -> list[str]:
    """The addresses that a place is made of; none if it is a directory of a node's own."""
    found = parse_place(place, allow_unsafe=True)
    if found.kind == "mirrors":
        raise ConfigError([f"{place}: name each of its directories by itself"])
    if found.kind == "directory":
        (directory,) = found.directories
        require_not_shared(directory, RealDisk())
        return []
    return list(found.databases or [place])


def _verification_json(found: Verification) -> Row:
    return {
        "clean": found.is_clean,
        "directory": str(found.directory),
        "segments": found.segments,
        "bytes": found.bytes_read,
        "first_index": found.first_index,
        "last_index": found.last_index,
        "last_term": found.last_term,
        "last_chain": found.last_chain.hex(),
        "records": found.next_record - 1,
        "damage": [asdict(damage) for damage in found.damage],
        "tail": {
            "state": found.tail,
            "segment": found.tail_segment,
            "byte": found.tail_byte,
            "reason": found.tail_reason,
        },
        "mirror": _mirror_sentences(found.directory) or None,
        "ballot_problem": found.ballot_problem or None,
    }


def _tell(found: Verification) -> None:
    write_line(
        f"{found.segments:,} segments, {format_size(found.bytes_read)}, entries"
        f" {found.first_index:,} to {found.last_index:,}, last record {found.next_record - 1:,}"
    )
    write_line(f"term {found.last_term}, chain {found.last_chain.hex()}")
    for damage in found.damage:
        write_line(f"damaged: {damage}")
    if found.ballot_problem:
        write_line(f"damaged: {found.ballot_problem}")
    place = f"segment {found.tail_segment} from byte {found.tail_byte:,}"
    if found.tail == "torn":
        write_line(f"a write was interrupted at the end, never confirmed: {place}")
    elif found.tail == "moving":
        write_line(f"a node is writing at the end: {place} was not checked")
    elif found.tail == "unknown":
        write_line(f"damaged or interrupted, it cannot be told: {place}: {found.tail_reason}")
    for sentence in _mirror_sentences(found.directory):
        write_line(sentence)
    write_line("everything stored is whole" if found.is_clean else "the log is damaged")


def _mirror_sentences(directory: Path) -> list[str]:
    """Say whether a directory is one of several, and of how many."""
    found = peek([directory], RealDisk())
    (it,) = found.each
    if it.problem:
        return [it.problem]
    if it.written is None:
        return []
    known, places = it.written.known, found.places()
    others = [
        f"{places.get(member, member)} ({state})"
        for member, state in known.states
        if member != it.member
    ]
    state = known.state_of(it.member) or "no member any more"
    return [f"mirror: {state} as it knows, with {', '.join(others) or 'no others'}"]


@store.command("dump")
def dump(
    place: PlaceArgument,
    destination: Annotated[
        str | None, typer.Option("--destination", metavar="NAME", help="Only of this queue.")
    ] = None,
    from_index: Annotated[
        int, typer.Option("--from-index", min=1, metavar="N", help="First entry.")
    ] = 1,
    to_index: Annotated[
        int | None, typer.Option("--to-index", min=1, metavar="N", help="Last entry.")
    ] = None,
    row_format: Annotated[
        Literal["table", "jsonl"], typer.Option("--format", help="For people or for programs.")
    ] = "table",
    bodies: Annotated[bool, typer.Option("--bodies", help="With the messages' bodies.")] = False,
) -> None:
    """Write the records of the log, one per line."""
    hide_places({PLACE_VARIABLE: place})
    media = _media(place)
    queue = _queue_of(destination)
    progress = entries_progress if media else _progress
    with closing(MediumLog(media) if media else LogFiles(Path(place))) as log:
        with progress("looking for queues") as visit:
            names = queue_names(log.between(1, None, visit))
        line_of = json_line if row_format == "jsonl" else row_text
        if row_format == "table":
            write_line(ROW_HEADER)
        damaged = 0
        with progress("writing") as visit:
            for entry in log.between(from_index, to_index, visit):
                lines: list[str] = []
                try:
                    rows = _rows(entry, names, queue=queue, with_bodies=bodies)
                    lines.extend(map(line_of, rows))  # what comes before nonsense is kept
                except StoreError as error:
                    damaged += 1
                    write_error(f"damaged: {error}")
                write_lines(lines)
    if damaged:
        raise typer.Exit(EXIT_DAMAGED)


def _rows(
    entry: Entry | Damage | LostEntries,
    names: dict[int, str],
    *,
    queue: str | None,
    with_bodies: bool,
) -> Iterator[Row]:
    if not isinstance(entry, Entry):
        raise entry.error()
    yield from rows_of(entry, names, queue=queue, with_bodies=with_bodies)


def _queue_of(destination: str | None) -> str | None:
    if destination is None:
        return None
    try:
        return parse_destination(destination).name
    except DestinationError as error:
        raise ConfigError([f"destination: {error}"]) from error


@contextmanager
def _progress(title: str) -> Iterator[Visit]:
    """A bar of bytes on standard error, where somebody watches."""
    terminal = watched_console()
    if terminal is None:
        yield untold
        return
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=terminal, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


@store.command("take-back")
def take_back_kept(
    directory: DirectoryArgument,
    yes: Annotated[
        bool, typer.Option("--yes", help="State that it is promoted by force next.")
    ] = False,
) -> None:
    """Put the log that was kept in the place of one that was never filled; the node is stopped."""
    with _kept_log(directory) as (disk, held):
        write_error(
            f"{held} What the newer one has beyond that is removed, although this node may have"
            f" told the others that it holds it: only for a node that goes on alone."
        )
        if not yes and not typer.confirm("Will it be promoted by force next?", err=True):
            raise typer.Exit(1)
        take_back(directory, disk)
    write_line("taken back; start the node and use 'holdfast cluster promote NAME --force'")


@store.command("give-up-older")
def give_up_kept(
    directory: DirectoryArgument,
    yes: Annotated[bool, typer.Option("--yes", help="State that the others are safe.")] = False,
) -> None:
    """Remove the log that was kept beside one that is being filled; the node is stopped."""
    with _kept_log(directory) as (disk, held):
        write_error(f"{held} Without it this node holds no whole copy until the newer one is full.")
        if not yes and not typer.confirm("Are the other members safe?", err=True):
            raise typer.Exit(1)
        give_up_older(directory, disk)
    write_line("given up; start the node, it goes on being filled")


@contextmanager
def _kept_log(directory: Path) -> Iterator[tuple[RealDisk, str]]:
    """Lock a stopped node that keeps an older log; gives its disk, and what that log holds."""
    disk = RealDisk()
    if is_of_a_set(directory, disk):
        raise StoreError(
            f"{directory} is one of several mirrors, and would differ from the others: do this on a"
            f" copy of it without its file {SET_FILE_NAME}, and let the others be filled by that"
        )
    lock = _lock(disk, directory)
    try:
        kept = require_kept(directory, disk).kept
        assert kept is not None
        yield disk, f"The kept log holds everything to {utc(kept.timestamp)}, entry {kept.index:,}."
    finally:
        lock.release()


def _lock(disk: RealDisk, directory: Path) -> DiskLock:
    """Take the lock of a node that is stopped."""
    try:
        return disk.lock(directory / "lock")
    except BlockingIOError as error:
        raise in_use(directory, error, by="a running node", remedy="stop it first") from None
    except FileNotFoundError:
        raise StoreError(f"{directory} is no data directory") from None
