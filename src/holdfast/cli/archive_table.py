"""
The table of an archive: made and brought up to date by a command, or beside the archiver.

It is a second list of the same files. So its faults keep nothing from being archived: they are
told, and the next time everything that is missing is made good.
"""

from __future__ import annotations

import importlib.util
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Final

import typer

from holdfast.cli.output import write_error, write_fields, write_json
from holdfast.cli.spark_checks import check_archive_from
from holdfast.cli.spark_options import conf_of
from holdfast.errors import ArchiveError, ConfigError

if TYPE_CHECKING:
    from holdfast.spark.archive.store import Archive
    from holdfast.spark.archive.table import TableState

FORMATS: Final = ("delta",)
PACKAGES: Final = ("deltalake", "numpy", "pyarrow")
"""What a table needs; the extra `delta` installs it, and Spark."""
SPANS_TOLD_MAX: Final = 5
_OF_HADOOP: Final = "spark.hadoop."


def register(app: typer.Typer) -> None:
    """Add the command to the command line."""
    app.command("archive-table")(archive_table)


def archive_table(
    archived: Annotated[str, typer.Argument(metavar="ARCHIVE", help="The path of an archive.")],
    json: Annotated[bool, typer.Option("--json", help="Write the result as JSON.")] = False,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf",
            metavar="KEY=VALUE",
            help="As for archive: spark.hadoop.fs.s3a.… tell where an object store is.",
        ),
    ] = None,
) -> None:
    """Make an archive a Delta table that others can query, or bring its table up to date."""
    check_table("delta")
    from holdfast.spark.archive.places import place_options
    from holdfast.spark.archive.store import Archive
    from holdfast.spark.archive.table import keep_table

    check_archive_from(archived, "ARCHIVE")
    given = {key.removeprefix(_OF_HADOOP): value for key, value in conf_of(conf).items()}
    state = keep_table(Archive.open(archived, place_options(given)))
    if json:
        write_json({"archive": archived} | table_fields(state))
        return
    write_fields([("archive", archived), *table_lines(state)])


def table_fields(state: TableState | None) -> dict[str, object]:
    """What programs are told of a table; nothing where none is kept."""
    return {} if state is None else {"table": {"format": "delta"} | asdict(state)}


def table_lines(state: TableState | None) -> list[tuple[str, object]]:
    """What people are told of a table; nothing where none is kept."""
    if state is None:
        return []
    entries = f"entries {state.first_index:,} to {state.last_index:,}"
    lines: list[tuple[str, object]] = [
        ("table", f"delta, version {state.version:,}, {entries}"),
        ("its files", f"{state.files:,}; {state.added:,} added, {state.removed:,} removed"),
    ]
    if state.missing:
        lines.append(("it lacks", f"{missing_words(state)}, missing from the archive"))
    return lines


def missing_words(state: TableState) -> str:
    """Say which entries a table lacks between its first and its last one."""
    spans = state.missing[:SPANS_TOLD_MAX]
    more = len(state.missing) - len(spans)
    told = ", ".join(f"{first:,} to {last:,}" for first, last in spans)
    return f"entries {told}" + (f" and {more:,} more ranges" if more else "")


def check_table(table: str | None) -> None:
    """
    Make sure that tables of this format can be kept.

    Raises:
        ConfigError: They cannot.
    """
    if table is None:
        return
    if table not in FORMATS:
        raise ConfigError([f"--table: {table!r} is not known; there is {', '.join(FORMATS)}"])
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        problem = (
            f"a Delta table needs what is not installed ({', '.join(missing)});"
            f" install it with: pip install 'holdfast[delta]'"
        )
        raise ConfigError([problem])


class KeptTable:
    """The table of an archive that is being written; an archive that has one keeps it."""

    def __init__(self, store: Archive) -> None:
        self.store = store
        self.is_wanted = False
        """Whether a table is made where there is none."""
        self.state: TableState | None = None
        """What it names, and what all this run has changed."""
        self.failure = ""
        """Why it is not up to date; empty if it is."""
        self._is_there = False
        self._mark: object = None

    def look(self) -> None:
        """Bring the table up to date if there is one, whoever made it."""
        from holdfast.spark.archive.table import has_table

        self._is_there = has_table(self.store)
        if self._is_there:
            self._keep()

    def follow(self, mark: object) -> None:
        """Bring it up to date if `mark`, which stands for what was done so far, is another one."""
        if (self._is_there or self.is_wanted) and (mark != self._mark or self.failure):
            self._keep()
            self._mark = mark

    def _keep(self) -> None:
        from holdfast.spark.archive.table import keep_table

        try:
            state = keep_table(self.store)
        except (ArchiveError, OSError) as error:
            if str(error) != self.failure:
                write_error(f"warning: the table is not up to date: {error}")
            self.failure = str(error)
            return
        self.failure = ""
        if state.missing and (self.state is None or state.missing != self.state.missing):
            write_error(f"warning: the table lacks {missing_words(state)}, as the archive does")
        if self.state is not None:
            added, removed = self.state.added + state.added, self.state.removed + state.removed
            state = replace(state, added=added, removed=removed)
        self.state = state
