"""
What may be said of destinations by pattern: every key, what it may be, and which are not served.

The names are those of ActiveMQ's policy entries. A key is here if something obeys it. Those that
tune what there is none of here (pages of a store, caches, audits) are taken with a notice; those of
what is not built yet are refused, as to take them would be a lie.

Invariants:
    What `read_values` gives is what may stand in a policy record, and nothing else is.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.errors import DestinationError
from holdfast.model.allowed import Allowed
from holdfast.model.destination import Kind, parse_destination
from holdfast.model.groups import BUCKETS, BUCKETS_MAX
from holdfast.model.limits import QUEUE_NAME_BYTES_MAX
from holdfast.model.redelivery import (
    DELAY_MS_MAX,
    KEYS,
    MAXIMUM_MOST,
    MULTIPLIER_MAX,
    UNLIMITED,
    Redelivery,
)
from holdfast.model.unobeyed_keys import MOOT, UNBUILT

PREFETCH_MAX: Final = 65_535
_NAME_PART_BYTES_MAX: Final = 256
AWAITED_MAX: Final = 10_000
DELIVERY_SECONDS_MAX: Final = 7 * 24 * 3600
LIFETIME_MS_MAX: Final = 366 * 24 * 3600 * 1000

Value = str | int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOption:
    """One key."""

    name: str
    kind: Kind
    """What it can be said of."""
    meaning: str
    allowed: Allowed | None = None
    """Of a number, its range; of a text, its length in bytes."""
    choices: tuple[str, ...] = ()
    default: Value = ""
    setting: str = ""
    """Where its default is from, if that is a setting."""
    is_decimal: bool = False
    """Whether it is a number that may have a fraction."""

    @property
    def is_number(self) -> bool:
        """Whether it is a number, else a text."""
        return self.allowed is not None and not self.is_name

    @property
    def is_name(self) -> bool:
        """Whether it is, or is a part of, the name of a queue."""
        return self.name in _NAMES

    @property
    def says_allowed(self) -> str:
        """What it may be, for people."""
        if self.choices:
            return ", ".join(self.choices)
        return f"{self.allowed} bytes" if self.is_name else str(self.allowed)


SHARED: Final = "shared"
INDIVIDUAL: Final = "individual"
DISCARD: Final = "discard"

_NAMES: Final = {"deadLetterQueue": "", "queuePrefix": "x", "queueSuffix": "x"}
"""Keys that are names of queues; what a part of one is tried with."""

_REDELIVERY: Final = Redelivery()
FALSE: Final = "false"
TRUE: Final = "true"
_NUMBERS_END: Final = 1e9
_SIGNED: Final = re.compile(r"(-?)(\d{1,12})", re.ASCII)
_DECIMAL: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)

_WRITTEN: Final = ("queue://", "topic://", "/queue/", "/topic/", "/temp-")
"""How a destination begins where its kind is told: no name is meant to."""

OPTIONS: Final = {
    option.name: option
    for option in (
        PolicyOption(
            name="queuePrefetch",
            kind=Kind.QUEUE,
            meaning="most deliveries unacknowledged at once, of a subscription that says nothing",
            allowed=Allowed(1, PREFETCH_MAX),
            setting="broker.prefetch_default",
        ),
        PolicyOption(
            name="queueBrowserPrefetch",
            kind=Kind.QUEUE,
            meaning="the same of one that only looks through the queue",
            allowed=Allowed(1, PREFETCH_MAX),
            default=500,
        ),
        PolicyOption(
            name="topicPrefetch",
            kind=Kind.TOPIC,
            meaning="the same of a subscription of a topic",
            allowed=Allowed(1, PREFETCH_MAX),
            setting="broker.prefetch_max",
        ),
        PolicyOption(
            name="deadLetterStrategy",
            kind=Kind.QUEUE,
            meaning="where rejected messages go: to one queue for all, to one of their queue's own,"
            " nowhere",
            choices=(SHARED, INDIVIDUAL, DISCARD),
            default=SHARED,
        ),
        PolicyOption(
            name="deadLetterQueue",
            kind=Kind.QUEUE,
            meaning="the queue for all, if the strategy is shared",
            allowed=Allowed(1, QUEUE_NAME_BYTES_MAX),
            setting="broker.dead_letter_queue",
        ),
        PolicyOption(
            name="queuePrefix",
            kind=Kind.QUEUE,
            meaning="what stands before the queue's name, if the strategy is individual",
            allowed=Allowed(1, _NAME_PART_BYTES_MAX),
            default="ActiveMQ.DLQ.Queue.",
        ),
        PolicyOption(
            name="queueSuffix",
            kind=Kind.QUEUE,
            meaning="and what stands behind it",
            allowed=Allowed(0, _NAME_PART_BYTES_MAX),
        ),
        PolicyOption(
            name="processNonPersistent",
            kind=Kind.QUEUE,
            meaning="whether rejected messages go there that are not persistent; they are stored",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="processExpired",
            kind=Kind.QUEUE,
            meaning="whether what expires is a dead letter; else it is nowhere any more",
            choices=(FALSE, TRUE),
            default=TRUE,
        ),
        PolicyOption(
            name="expiration",
            kind=Kind.QUEUE,
            meaning="milliseconds that dead letters of the queue may stand where they are; 0: for"
            " ever",
            allowed=Allowed(0, LIFETIME_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="zeroExpirationOverride",
            kind=Kind.QUEUE,
            meaning="milliseconds after which messages expire that say nothing of it; 0: never",
            allowed=Allowed(0, LIFETIME_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="ttlCeiling",
            kind=Kind.QUEUE,
            meaning="most milliseconds that a message lives of which it is said how long; 0:"
            " without a limit",
            allowed=Allowed(0, LIFETIME_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="futureOnly",
            kind=Kind.QUEUE,
            meaning="whether a lifetime counts from when the message came, if that is later by its"
            " sender's clock, and none is cut",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="expireMessagesPeriod",
            kind=Kind.QUEUE,
            meaning="milliseconds; 0: what has expired is taken off only as it would be delivered,"
            " else at once, whatever the number",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=30_000,
        ),
        PolicyOption(
            name="maximumRedeliveries",
            kind=Kind.QUEUE,
            meaning="how often a message comes again that fails; -1: for ever",
            allowed=Allowed(UNLIMITED, MAXIMUM_MOST),
            default=_REDELIVERY.maximum,
        ),
        PolicyOption(
            name="initialRedeliveryDelay",
            kind=Kind.QUEUE,
            meaning="milliseconds that it rests after its first failure",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=_REDELIVERY.initial_delay_ms,
        ),
        PolicyOption(
            name="redeliveryDelay",
            kind=Kind.QUEUE,
            meaning="and after each later one",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=_REDELIVERY.delay_ms,
        ),
        PolicyOption(
            name="useExponentialBackOff",
            kind=Kind.QUEUE,
            meaning="instead of that, each time so many times as long as before",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="backOffMultiplier",
            kind=Kind.QUEUE,
            meaning="how many times",
            allowed=Allowed(1, MULTIPLIER_MAX),
            default=_REDELIVERY.multiplier,
            is_decimal=True,
        ),
        PolicyOption(
            name="maximumRedeliveryDelay",
            kind=Kind.QUEUE,
            meaning="but no longer than this, in milliseconds; -1: without a limit",
            allowed=Allowed(UNLIMITED, DELAY_MS_MAX),
            default=_REDELIVERY.delay_ms_max,
        ),
        PolicyOption(
            name="useCollisionAvoidance",
            kind=Kind.QUEUE,
            meaning="delays that differ by chance, so that what failed together does not come"
            " together",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="collisionAvoidanceFactor",
            kind=Kind.QUEUE,
            meaning="by which share of them at most",
            allowed=Allowed(0, 1),
            default=_REDELIVERY.scatter,
            is_decimal=True,
        ),
        PolicyOption(
            name="deliverySecondsMax",
            kind=Kind.QUEUE,
            meaning="after so many seconds in delivery a message counts as rejected; 0: never",
            allowed=Allowed(0, DELIVERY_SECONDS_MAX),
            default=0,
        ),
        PolicyOption(
            name="useConsumerPriority",
            kind=Kind.QUEUE,
            meaning="whether consumers of a higher priority get messages first",
            choices=(FALSE, TRUE),
            default=TRUE,
        ),
        PolicyOption(
            name="allConsumersExclusiveByDefault",
            kind=Kind.QUEUE,
            meaning="whether each consumer wants to be the only one that gets messages",
            choices=(FALSE, TRUE),
            default=FALSE,
        ),
        PolicyOption(
            name="consumersBeforeDispatchStarts",
            kind=Kind.QUEUE,
            meaning="so many consumers are waited for before the first message goes out",
            allowed=Allowed(0, AWAITED_MAX),
            default=0,
        ),
        PolicyOption(
            name="timeBeforeDispatchStarts",
            kind=Kind.QUEUE,
            meaning="but no longer than so many milliseconds after the first one came",
            allowed=Allowed(0, DELAY_MS_MAX),
            default=0,
        ),
        PolicyOption(
            name="messageGroupBuckets",
            kind=Kind.QUEUE,
            meaning="message groups are in so many buckets, each of which one consumer has",
            allowed=Allowed(1, BUCKETS_MAX),
            default=BUCKETS,
        ),
        PolicyOption(
            name="groupRebalance",
            kind=Kind.QUEUE,
            meaning="whether a consumer that comes gets message groups of others",
            choices=(FALSE, TRUE),
            default=TRUE,
        ),
        PolicyOption(
            name="redeliveryKeepsOrder",
            kind=Kind.QUEUE,
            meaning="whether the rest of a message group waits for one that is to come again later",
            choices=(FALSE, TRUE),
            default=TRUE,
        ),
    )
}

REVISION_MAX: Final = (1 << 62) - 1
"""Of a file; a number that every language and TOML have."""


@dataclass(frozen=True, slots=True)
class Spoken:
    """What one pattern was said to have, as far as it can be taken."""

    values: dict[str, Value]
    moot: tuple[str, ...]
    """Keys that were taken and mean nothing here."""
    faults: tuple[tuple[str, str], ...]
    """Keys that cannot be taken, and why."""


@dataclass(frozen=True, slots=True)
class FilePolicies:
    """What a node's configuration file says of destinations."""

    revision: int = 0
    """The higher one counts, whichever node leads; 0: it says nothing."""
    values: Mapping[str, Mapping[str, Value]] = field(default_factory=dict)
    """By pattern."""
    moot: tuple[str, ...] = ()
    """Keys in it that mean nothing here."""
    places: Mapping[tuple[str, str], str] = field(default_factory=dict, compare=False)
    """Where in it each stands, by pattern and key."""


NO_POLICIES: Final = FilePolicies()

NEAR_COUNT_MAX: Final = 5
"""Of so many unknown keys it is looked what may have been meant: half a millisecond for each, and a
request may have thousands."""


def read_values(kind: Kind, said: Mapping[str, object]) -> Spoken:
    """Read what is said of destinations of a kind: as it was written, or as a number or text."""
    values: dict[str, Value] = {}
    moot: list[str] = []
    faults: list[tuple[str, str]] = []
    for name, value in said.items():
        try:
            if name in MOOT:
                moot.append(name)
            else:
                is_near_told = len(faults) < NEAR_COUNT_MAX
                option = require_option(name, kind, is_near_told=is_near_told)
                values[name] = _read_value(option, value)
        except ValueError as error:
            faults.append((name, str(error)))
    return Spoken(values, tuple(moot), tuple(faults))


def require_option(name: str, kind: Kind, *, is_near_told: bool = True) -> PolicyOption:
    """
    Give what a key is that can be said of destinations of a kind.

    Args:
        is_near_told: Of a key that is not known, say which one may have been meant.

    Raises:
        ValueError: It is not known, not built yet, or of destinations of another kind.
    """
    option = OPTIONS.get(name)
    if option is None:
        raise ValueError(_why_not(name, is_near_told=is_near_told))
    if option.kind is not kind:
        raise ValueError(f"is a key of {option.kind.value}s, and the pattern is of {kind.value}s")
    return option


def _why_not(name: str, *, is_near_told: bool) -> str:
    if name in UNBUILT:
        return "is not built yet: nothing would obey it"
    if not is_near_told:
        return "unknown key"
    near = difflib.get_close_matches(name[:80], [*OPTIONS, *MOOT, *UNBUILT], n=1)
    return "unknown key" + (f"; did you mean {near[0]}?" if near else "")


def _read_value(option: PolicyOption, value: object) -> Value:
    if option.is_number:
        number = _read_number(value, is_decimal=option.is_decimal)
        if number is None or not _fits(number, option):
            raise ValueError(f"{_shown(value)} is out of range; allowed: {option.says_allowed}")
        return number
    if isinstance(value, bool) and option.choices == (FALSE, TRUE):
        return TRUE if value else FALSE
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is no text; allowed: {option.says_allowed}")
    if option.choices and value not in option.choices:
        raise ValueError(f"{_shown(value)} is not one of them; allowed: {option.says_allowed}")
    if option.is_name:
        _require_name(option, value)
    return value


def _read_number(value: object, *, is_decimal: bool) -> int | float | None:
    """Give the number that this is, or is a text of; None if it is none."""
    if isinstance(value, str):
        if is_decimal:
            return float(value) if _DECIMAL.fullmatch(value) else None
        return int(value) if _SIGNED.fullmatch(value) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if is_decimal:
        return float(value) if abs(value) < _NUMBERS_END else None
    return value if isinstance(value, int) else None


def redelivery_of(values: Mapping[str, Value], base: Redelivery | None = None) -> Redelivery | None:
    """Give what these values say of redelivery beside what holds; None if nothing says anything."""
    said: dict[str, Any] = {
        field: values[name] == TRUE if OPTIONS[name].choices else values[name]
        for name, field in KEYS.items()
        if name in values
    }
    if not said:
        return base
    return (base or _REDELIVERY)._replace(**said)


def _require_name(option: PolicyOption, value: str) -> None:
    """Make sure that a queue can be called so, and that consumers can say its name."""
    if not _fits(len(value.encode()), option) or not value.isprintable():
        raise ValueError(f"{_shown(value)} is no such name; allowed: {option.says_allowed}")
    if value.startswith(_WRITTEN):
        raise ValueError(f"{_shown(value)}: write the name alone, without what stands before it")
    rest = _NAMES[option.name]
    name = value + rest if option.name == "queuePrefix" else rest + value
    try:
        found = parse_destination(f"/queue/{name}")
    except DestinationError as error:
        raise ValueError(f"no queue can be called so: {error}") from None
    if found.name != name:
        raise ValueError(f"{_shown(value)}: no queue can be called so")


def _fits(number: float, option: PolicyOption) -> bool:
    allowed = option.allowed
    assert allowed is not None and allowed.most is not None, "it has a range"
    return allowed.least <= number <= allowed.most


def _shown(value: object) -> str:
    text = repr(value) if not isinstance(value, int) or abs(value) < 1 << 64 else "such a number"
    return text if len(text) <= 80 else f"{text[:40]}…{text[-40:]}"


def as_text(values: Mapping[str, Value]) -> str:
    """Write values as a record holds them: the same ones always as the same text."""
    if not values:
        return ""
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def moot_notice(names: tuple[str, ...]) -> str:
    """Say of keys that they were taken and mean nothing."""
    return f"{', '.join(sorted(set(names)))}: nothing is done with them, as there is no such thing"
