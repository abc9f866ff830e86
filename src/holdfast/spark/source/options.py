"""
The options of the data source: read from Spark's strings, checked as a whole.

All mistakes are reported together, each with its key. An option that is not known is a mistake: a
misspelled `hold` must not go unnoticed. What users of Spark's Kafka source write is understood:
its names stand for ours.

Immutable, pickled to the workers. The cluster's secret does not travel, a token made from it does,
or a user's own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, cast

from holdfast.admin.endpoint import Endpoint
from holdfast.admin.remote import admin_token
from holdfast.authorities.token_files import read_secret, read_token_file
from holdfast.config.store_url import StoreUrl, hidden
from holdfast.errors import ConfigError
from holdfast.model.digits import WHOLE_END, read_count, read_digits
from holdfast.model.limits import (
    HOLD_EXPIRY_SECONDS_DEFAULT,
    HOLD_EXPIRY_SECONDS_MAX,
    HOLD_EXPIRY_SECONDS_MIN,
    HOLD_NAME,
)
from holdfast.spark.archive.places import HADOOP_KEYS, Options, absolute, place_options
from holdfast.spark.columns.schema import PROBLEM, View, check_view, choose_columns, default_columns
from holdfast.spark.log.store_log import store_log
from holdfast.spark.source.offsets import Taken
from holdfast.spark.source.option_names import Place, ending_at, starting_at, unknown_option

Mode = Literal["fail", "report"]

KiB: Final = 1024
PARTITIONS_MAX: Final = 1_000_000
"""That a query may ask for: each is an object on the driver."""

_SIZE: Final = re.compile(r"(\d+)\s*([kmgt]?)i?b?", re.IGNORECASE | re.ASCII)
_PASSWORD_FILE: Final = re.compile(r"(?<=[?&])password_file=[^&\s]*")
"""Where a password stands, not the password."""
_DURATION: Final = re.compile(r"(\d{1,9})\s*([smhd])", re.IGNORECASE | re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MILLISECONDS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: Spark and Python know no later time."""
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What is to be read, and from where."""

    view: View = "messages"
    columns: tuple[str, ...] = ()
    urls: tuple[str, ...] = ()
    """Admin ports, as `admin.endpoint` reads them."""

    path: str = ""
    stores: tuple[StoreUrl, ...] = ()
    """A database, several that hold one log, or a shared directory: each with its password, which
    is not shown."""

    place_options: Options = field(default=(), repr=False)
    """What the file system of `path` is told: Hadoop's names for an object store."""

    token: str = field(default="", repr=False)
    """What an admin port is shown: made of the cluster's secret, or a user's own."""

    cluster_id: str = ""
    start_index: int | None = None
    end_index: int | None = None
    start_time: int | None = None
    """Microseconds since the epoch, as `end_time`."""

    end_time: int | None = None
    as_of: int | None = None
    mode: Mode = "fail"
    entries_per_trigger_max: int | None = None
    bytes_per_trigger_max: int | None = None
    partitions_min: int = 1
    """Segments are cut in pieces until there are so many."""

    hold: str = ""
    hold_bytes_max: int | None = None
    """None: what the cluster keeps for who does not say."""

    hold_expiry_seconds: int = HOLD_EXPIRY_SECONDS_DEFAULT
    starts_at_latest: bool = False
    fails_on_loss: bool = True
    """False: what was cleaned away before it was read is passed over, and counted."""

    proofs: tuple[Taken, ...] = ()
    """Offsets that were given for a start or an end: the log must hold what they were taken of."""


def read_options(options: Mapping[str, str]) -> ReadOptions:
    """
    Check Spark's options and make values of them.

    Raises:
        ConfigError: Every mistake, one sentence each.
    """
    problems: list[str] = []
    given = {key.lower(): value for key, value in options.items()}
    fields: dict[str, Any] = {}
    problems += [
        unknown_option(key, _NAMES, tuple(name for name, *_ in _ALIASES), HADOOP_KEYS)
        for key in sorted(set(given) - set(_READERS) - set(HADOOP_KEYS))
    ]
    if told := place_options({key: value.strip() for key, value in given.items()}):
        fields["place_options"] = told
    _read_values(given, fields, problems)
    _settle_places(fields)
    _choose(fields, problems)
    if problems:
        raise ConfigError(problems)
    return ReadOptions(**fields)


def _read_values(given: dict[str, str], fields: dict[str, Any], problems: list[str]) -> None:
    """Read what was given; two names of one option must say the same."""
    said_by: dict[str, str] = {}
    for key, (name, target, read) in _READERS.items():
        if key not in given:
            continue
        try:
            value = read(given[key].strip())
        except ConfigError as error:
            problems += error.problems
            continue
        except (ValueError, OSError) as error:
            problems.append(f"{name}: {given[key]!r} cannot be used: {error}")
            continue
        other = said_by.setdefault(target, name)
        if other != name and fields[target] != value:
            problems.append(
                f"{other}, {name}: two names of the same, with different values:"
                f" {given[other.lower()]!r} and {given[key]!r}; give one of them"
            )
        fields[target] = value


def _settle_places(fields: dict[str, Any]) -> None:
    """Make entries of the places that a start and an end may be."""
    for target in ("start_index", "end_index"):
        place: Place | None = fields.get(target)
        if place is None:
            continue
        fields[target] = place.index
        if place.is_latest and target == "start_index":
            fields["starts_at_latest"] = True
        if place.taken is not None:
            fields["proofs"] = (*fields.get("proofs", ()), place.taken)


def _choose(fields: dict[str, Any], problems: list[str]) -> None:
    """Work out the columns, and check what must fit together."""
    if sum(bool(fields.get(it)) for it in ("urls", "path", "stores")) != 1:
        problems.append("url, path, store: name one of them: where the log is read from")
    if fields.get("hold") and (fields.get("path") or fields.get("stores")):
        problems.append("hold: only a broker holds its log, not files nor a store; it needs url")
    view = fields.get("view", "messages")
    if "as_of" in fields and view != "backlog":
        problems.append("as_of: only the view backlog has a moment; use start_index and end_index")
    try:
        wanted = fields.pop("columns", None)
        columns = choose_columns(view, wanted) if wanted else default_columns(view)
    except ConfigError as error:
        problems += error.problems
        return
    if fields.get("mode") == "report" and PROBLEM not in columns:
        columns = (*columns, PROBLEM)
    fields["columns"] = columns


def urls_of(text: str) -> tuple[str, ...]:
    """
    Return the addresses in a list of `http://host:port` or `https://host:port?caFile=…`.

    Those in clear are given as `host:port`.

    Raises:
        ValueError: One of them is none.
    """
    found = []
    for word in text.split(","):
        url = word.strip()
        try:
            endpoint = Endpoint.parse(url if "//" in url else f"http://{url}")
        except ConfigError:
            endpoint = Endpoint("")
        if not endpoint.place:
            raise ValueError(
                f"expected http:// or https://host:port of an admin port, found {url!r}"
            )
        found.append(endpoint.place if endpoint.files is None else url)
    return tuple(found)


def _stores(text: str) -> tuple[StoreUrl, ...]:
    shown = _PASSWORD_FILE.sub("", text)
    if hidden(shown) != shown:
        told = (
            "store: Spark shows the options of a query to whoever may see its plan: leave the"
            " password out, and give it by ?password_file=FILE of the driver's machine, or by"
            " HOLDFAST_STORE_PASSWORD before Spark starts"
        )
        raise ConfigError([told])
    return store_log(text.split()).addresses


def size_of(text: str) -> int:
    """
    Return the bytes that a text like `64m` or `10 GiB` means.

    Raises:
        ValueError: It means none.
    """
    match = _SIZE.fullmatch(text.strip())
    number = read_count(match[1]) if match else None
    if match is None or number is None:
        raise ValueError("expected a size such as 67108864, 64m or 10 GiB")
    size = number * int(KiB ** _POWERS[match[2].lower()])
    if size >= WHOLE_END:
        raise ValueError("expected a size below 8 million TiB")
    return size


def duration_of(text: str) -> int:
    """
    Return the seconds that a text like `90s`, `12h` or `7d` means.

    Raises:
        ValueError: It means none that a hold may have.
    """
    match = _DURATION.fullmatch(text.strip())
    number = read_digits(match[1]) if match else None
    seconds = number * _SECONDS[match[2].lower()] if match and number else 0
    if not HOLD_EXPIRY_SECONDS_MIN <= seconds <= HOLD_EXPIRY_SECONDS_MAX:
        raise ValueError("expected a time such as 90s, 45m, 12h or 7d, from 10s to 366d")
    return seconds


def _count(text: str) -> int:
    number = read_count(text)
    if number is None:
        raise ValueError("expected a whole number from 1")
    return number


def _partitions(text: str) -> int:
    number = read_count(text)
    if number is None or number > PARTITIONS_MAX:
        raise ValueError(f"expected a whole number from 1 to {PARTITIONS_MAX:,}")
    return number


def _flag(text: str) -> bool:
    if text.lower() not in {"true", "false"}:
        raise ValueError("expected true or false")
    return text.lower() == "true"


def microseconds(text: str) -> int:
    """
    Return the microseconds since the epoch of a time in ISO 8601; without a zone it is UTC.

    Raises:
        ValueError: It is no such time.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1_000_000)


def _timestamp(text: str) -> int:
    """As the Kafka source has it: milliseconds since the epoch."""
    milliseconds = read_digits(text)
    if milliseconds is None:
        return microseconds(text)
    if milliseconds > _MILLISECONDS_MAX:
        raise ValueError("expected milliseconds of a time before the year 10000")
    return milliseconds * 1_000


def _mode(text: str) -> Mode:
    if text not in {"fail", "report"}:
        raise ValueError("expected fail or report")
    return cast("Mode", text)


def _hold(text: str) -> str:
    if not HOLD_NAME.fullmatch(text):
        raise ValueError("expected letters, digits and _.-, 63 at most")
    return text


def _token(text: str) -> str:
    return admin_token(read_secret(Path(text)))


def _user_token(text: str) -> str:
    return read_token_file(Path(text))


_TABLE: Final[tuple[tuple[str, str, Callable[[str], object]], ...]] = (
    ("url", "urls", urls_of),
    ("path", "path", absolute),
    ("store", "stores", _stores),
    ("view", "view", check_view),
    ("columns", "columns", str),
    ("secret_file", "token", _token),
    ("token_file", "token", _user_token),
    ("cluster_id", "cluster_id", str),
    ("start_index", "start_index", starting_at),
    ("end_index", "end_index", ending_at),
    ("start_time", "start_time", microseconds),
    ("end_time", "end_time", microseconds),
    ("as_of", "as_of", _count),
    ("mode", "mode", _mode),
    ("maxEntriesPerTrigger", "entries_per_trigger_max", _count),
    ("maxBytesPerTrigger", "bytes_per_trigger_max", size_of),
    ("minPartitions", "partitions_min", _partitions),
    ("hold", "hold", _hold),
    ("holdBytesMax", "hold_bytes_max", size_of),
    ("holdExpiry", "hold_expiry_seconds", duration_of),
    ("failOnDataLoss", "fails_on_loss", _flag),
)
_ALIASES: Final[tuple[tuple[str, str, Callable[[str], object]], ...]] = (
    ("startingOffsets", "start_index", starting_at),
    ("endingOffsets", "end_index", ending_at),
    ("startingTimestamp", "start_time", _timestamp),
    ("endingTimestamp", "end_time", _timestamp),
    ("maxOffsetsPerTrigger", "entries_per_trigger_max", _count),
)
"""What Spark's Kafka source calls what is also in `_TABLE`."""

_NAMES: Final = [name for name, _, _ in _TABLE]
_READERS: Final = {
    name.lower(): (name, target, read) for name, target, read in (*_TABLE, *_ALIASES)
}
