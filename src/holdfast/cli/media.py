"""
`holdfast store verify` and `dump` of a log that is kept where several brokers reach it.

Read beside whoever serves it: no lease is taken, nothing is written, and of a database a user who
may read is enough. Of several databases each is verified by itself, and then all are compared as
far as the shortest of them goes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any, Final

from holdfast.cli.output import (
    format_size,
    watched_console,
    write_error,
    write_json,
    write_line,
)
from holdfast.config.store_url import hidden
from holdfast.copying.looking import LookedLog, member_at, open_looked, whole_address
from holdfast.copying.patience import ask_again
from holdfast.copying.reading import (
    PATIENCE_SECONDS,
    LostEntries,
    VerifiedLog,
    Visit,
    each_entry,
    range_of,
    read_entries,
    verify,
)
from holdfast.errors import ConfigError, CorruptEntryError
from holdfast.journal.entry import Entry

PLACE_VARIABLE: Final = "HOLDFAST_LOOK_AT"
"""An address with a password goes this way, and not through the list of processes."""


class MediumLog:
    """The entries of a log at an address, or in several databases that hold the same."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """Reach it; see `open_looked` for what is raised."""
        self._log = open_looked([whole_address(it) for it in addresses])
        try:
            self._range = range_of(ask_again(self._log.open_existing, PATIENCE_SECONDS))
        except BaseException:
            self._log.close()
            raise

    def between(
        self, from_index: int, to_index: int | None, visit: Visit
    ) -> Iterator[Entry | LostEntries]:
        """The entries of this range in order, and in place of what is damaged, its damage."""
        first, last = self._range
        first = max(first, from_index)
        last = last if to_index is None else min(last, to_index)
        yield from each_entry(self._log, first, last, self._log.facts().place, visit)

    def close(self) -> None:
        """Let go of it."""
        self._log.close()


def verify_media(addresses: Sequence[str], *, as_json: bool) -> bool:
    """
    Verify a log at each address, tell what was found, and give whether all is whole and alike.

    Raises:
        ConfigError: Two addresses lead to one database, or to different logs.
        StoreError: There is no log, or it cannot be read.
    """
    wholes = [whole_address(it) for it in addresses]
    if len(wholes) > 1:
        _require_apart(addresses, wholes)
    members = _members(wholes)
    with ExitStack() as opened:
        logs = []
        for whole in wholes:
            log = open_looked([whole], may_be_one_of_several=len(wholes) > 1)
            opened.callback(log.close)
            logs.append(log)
        found = []
        for log in logs:
            with entries_progress(hidden(log.facts().place)) as visit:
                found.append(verify(log, visit))
        _require_one_log(found)
        compared, is_alike = _compare(logs, found)
    is_clean = is_alike and not any(it.damage for it in found)
    if len(set(members)) < len(members):
        write_error(
            "two of these say that they are the same database: one is a copy of the other, or both"
            " addresses lead to one, which proves nothing"
        )
    if as_json:
        write_json(_as_json(found, is_clean, compared, is_alike=is_alike))
        return is_clean
    for it in found:
        _tell(it)
    if len(found) > 1:
        told = "the same" if is_alike else "NOT the same"
        write_line(f"compared through entry {compared:,}: {told}")
    write_line("everything stored is whole" if is_clean else "the log is damaged")
    return is_clean


def _require_apart(addresses: Sequence[str], wholes: Sequence[str]) -> None:
    """See that no address is given twice; a copy of a database says that it is that database."""
    known: dict[str, str] = {}
    for address, whole in zip(addresses, wholes, strict=True):
        place = _place_of(whole)
        if place in known:
            told = f"{hidden(known[place])} and {hidden(address)} are one database: name it once"
            raise ConfigError([told])
        known[place] = address


def _place_of(whole: str) -> str:
    """The file that a database is, or its address as it stands."""
    scheme, _, rest = whole.partition(":///")
    if not scheme.startswith("sqlite"):
        return whole
    return str(Path("/", rest.partition("?")[0].lstrip("/")).resolve())


def _members(wholes: Sequence[str]) -> list[str]:
    """The ids of these databases, each for itself; none where there is one only."""
    if len(wholes) < 2:
        return []
    return [ask_again(partial(member_at, it), PATIENCE_SECONDS) for it in wholes]


def _require_one_log(found: Sequence[VerifiedLog]) -> None:
    first, *others = found
    for it in others:
        if it.identity != first.identity:
            told = (
                f"{first.place} holds log {first.identity}, and {it.place} log {it.identity}: they"
                f" are no copies of one log, verify each by itself"
            )
            raise ConfigError([told])


def _compare(logs: Sequence[LookedLog], found: Sequence[VerifiedLog]) -> tuple[int, bool]:
    """Through which entry all go, and whether the chain up to there is the same in all."""
    common = min(it.last_index for it in found)
    if len(found) < 2 or common < max(it.first_index for it in found):
        return common, True
    chains = set()
    for log in logs:
        try:
            chains.add(read_entries(log, common - 1, common)[-1].chain)
        except CorruptEntryError:
            continue  # It is told as damage.
    return common, len(chains) < 2


def _as_json(
    found: Sequence[VerifiedLog], is_clean: bool, compared: int, *, is_alike: bool
) -> dict[str, Any]:
    each = [_one_as_json(it) for it in found]
    if len(each) == 1:
        return {"clean": is_clean, **each[0]}
    return {"clean": is_clean, "alike": is_alike, "compared_through": compared, "copies": each}


def _one_as_json(it: VerifiedLog) -> dict[str, Any]:
    return {
        **asdict(it),
        "last_chain": it.last_chain.hex(),
        "damage": [asdict(lost) for lost in it.damage],
    }


def _tell(it: VerifiedLog) -> None:
    lease = "held by nobody yet"
    if it.epoch:
        lease = f"epoch {it.epoch}, {'given back' if it.is_released else 'held'} by {it.holder}"
    write_line(f"{it.kind}, {it.place}: log {it.identity}; {lease}")
    if it.last_index < it.first_index:
        write_line("no entries")
    else:
        write_line(
            f"{it.entries:,} entries, {format_size(it.bytes)}, from {it.first_index:,} to"
            f" {it.last_index:,}, last record {it.last_record:,}"
        )
        write_line(f"term {it.last_term}, chain {it.last_chain.hex()}")
    for lost in it.damage:
        write_line(f"damaged: {lost}")


@contextmanager
def entries_progress(title: str) -> Iterator[Visit]:
    """Show a bar of entries on standard error, where somebody watches."""
    terminal = watched_console()
    if terminal is None:
        yield untold
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, console=terminal, transient=True) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def untold(done: int, total: int) -> None:
    """Take how far it is, where nobody watches."""
