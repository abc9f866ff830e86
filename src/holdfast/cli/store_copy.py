"""
`holdfast store copy FROM TO`: a log from any place where one is kept to any other.

Both stand still meanwhile: what is copied is served by nobody, and what is made is served once it
is whole. Exit code 0: it is, and was read back. 1: it is not; the sentence says why. 2: used
wrongly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from holdfast.cli.hidden_passwords import hide_places
from holdfast.cli.output import (
    format_seconds,
    format_size,
    watched_console,
    write_error,
    write_json,
    write_line,
)
from holdfast.config.sizes import parse_size
from holdfast.copying.contract import Source, Target
from holdfast.copying.copy import Copied, Told, copy
from holdfast.copying.directory_source import DirectorySource
from holdfast.copying.directory_target import DirectoryTarget, NewNode
from holdfast.copying.leased import LeasedSource, LeasedTarget
from holdfast.copying.looking import open_several
from holdfast.copying.places import MIRRORS, LogPlace, parse_place, require_nodes_own
from holdfast.environment.clock import SystemClock
from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError
from holdfast.journal.settings import JournalSettings
from holdfast.mirrors.opening import is_of_a_set
from holdfast.mirrors.settings import MirrorSettings
from holdfast.server.mirrors import open_set

FROM_VARIABLE = "HOLDFAST_COPY_FROM"
TO_VARIABLE = "HOLDFAST_COPY_TO"

FromArgument = Annotated[
    str,
    typer.Argument(
        metavar="FROM",
        envvar=FROM_VARIABLE,
        show_envvar=False,
        help="The log: DIR, mirrors:DIR,DIR, shared:DIR, a database's address, or 'URL URL'.",
    ),
]
ToArgument = Annotated[
    str,
    typer.Argument(
        metavar="TO", envvar=TO_VARIABLE, show_envvar=False, help="An empty place, of any kind."
    ),
]


def store_copy(
    source: FromArgument,
    target: ToArgument,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="The node that will run on a directory.")
    ] = "holdfast",
    address: Annotated[
        str, typer.Option("--address", metavar="HOST:PORT", help="Its peer port, if it has one.")
    ] = "",
    site: Annotated[str, typer.Option("--site", metavar="SITE", help="Its site.")] = "",
    segment: Annotated[
        str, typer.Option("--segment", metavar="SIZE", help="Segment size of a directory.")
    ] = "64m",
    allow_unsafe: Annotated[
        bool,
        typer.Option("--allow-unsafe", help="Use what may lose what it says it has stored."),
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Write JSON for programs.")] = False,
) -> None:
    """Copy a log that nobody serves to an empty place, and read it back."""
    hide_places({FROM_VARIABLE: source, TO_VARIABLE: target})
    if source == target:
        raise ConfigError(["FROM and TO are the same place"])
    found = parse_place(source, allow_unsafe=allow_unsafe)
    wanted = parse_place(target, allow_unsafe=allow_unsafe)
    node = NewNode(name=name, address=address, site=site)
    settings = JournalSettings(segment_bytes=_segment_bytes(segment))
    clock = SystemClock()
    began = clock.monotonic()
    with ExitStack() as opened, _progress() as told:
        # First the one that is only named: nothing is waited for where it cannot be used.
        made = _target(wanted, node, settings)
        opened.callback(made.close)
        held = _source(found, allow_unsafe=allow_unsafe)
        opened.callback(held.close)
        copied = copy(held, made, told)
        places = {"from": held.place, "to": made.place}
    seconds = clock.monotonic() - began
    if json:
        write_json({**places, **asdict(copied), "seconds": seconds})
    else:
        _tell(copied, places, seconds)


def _segment_bytes(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise ConfigError([f"--segment: {error}"]) from error


def _target(place: LogPlace, node: NewNode, settings: JournalSettings) -> Target:
    if place.open_medium is not None:
        return LeasedTarget(place.open_medium(), place.start, _waits)
    if place.kind == "several":
        told = (
            "several databases are filled by the brokers themselves: copy to one of them, and start"
            " the brokers with a --store for each, the others empty"
        )
        raise ConfigError([told])
    if place.kind == "mirrors":
        first, *others = place.directories
        more = "".join(f" --data {it}" for it in others)
        told = (
            f"mirrors are filled by the node itself: copy to {first}, and start the node with"
            f" --data {first}{more}"
        )
        raise ConfigError([told])
    (directory,) = place.directories
    return DirectoryTarget(directory, node, settings)


def _source(place: LogPlace, *, allow_unsafe: bool) -> Source:
    if place.open_medium is not None:
        return LeasedSource.open(place.open_medium(), _waits)
    if place.databases:
        several = open_several(place.databases, allow_unsafe=allow_unsafe)
        return LeasedSource.open(several, _waits)
    disk = RealDisk()
    if place.kind == "mirrors":
        return _mirrors(place.directories)
    (directory,) = place.directories
    require_nodes_own(directory, disk)
    if is_of_a_set(directory, disk):
        told = f"{directory} is one of several mirrors: name all of them, as in mirrors:DIR,DIR"
        raise ConfigError([told])
    return DirectorySource(directory, disk)


def _mirrors(directories: tuple[Path, ...]) -> Source:
    """The set is judged and made alike as when its node starts, and then read as one."""
    disk = RealDisk()
    for directory in directories:
        if not is_of_a_set(directory, disk):
            raise ConfigError([f"{directory} is of no mirror set: name it without mirrors:"])
    caretaker = open_set(directories, disk, MirrorSettings())
    place = MIRRORS + ",".join(map(str, directories))
    return DirectorySource(caretaker.disk.base, caretaker.disk, place=place)


def _waits(name: str, seconds: float) -> None:
    """Tell once who is waited for."""
    if name not in _told_of:
        _told_of.add(name)
        write_error(f"waiting for {seconds:.0f} s whether {name}, who held the lease, is gone")


_told_of: set[str] = set()


@contextmanager
def _progress() -> Iterator[Told]:
    """A bar on standard error, where somebody watches."""
    terminal = watched_console()
    if terminal is None:
        yield _untold
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=terminal, transient=True) as progress:
        tasks: dict[str, Callable[[int], None]] = {}

        def told(step: str, done: int, total: int) -> None:
            if step not in tasks:
                task = progress.add_task(f"entries {step}", total=total)
                tasks[step] = lambda done: progress.update(task, completed=done)
            tasks[step](done)

        yield told


def _untold(step: str, done: int, total: int) -> None:
    """How far it is, where nobody watches."""


def _tell(copied: Copied, places: dict[str, str], seconds: float) -> None:
    if copied.was_whole:
        write_line(f"{places['to']} was a copy of {places['from']} already, and is the same")
    elif copied.was_done:
        write_line(f"went on with a copy that was broken off after {copied.was_done:,} entries")
    write_line(
        f"{copied.entries:,} entries, {format_size(copied.bytes)}, from {copied.first_index:,} to"
        f" {copied.last_index:,}, read back from {places['to']} and the same as in"
        f" {places['from']}: chain {copied.chain}"
    )
    write_line(f"took {format_seconds(seconds)}; start it with '{copied.start}'")
