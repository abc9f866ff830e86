"""
What is said of destinations by pattern, read key by key (`policy_options`).

Keys that tune what there is none of here (pages of a store, caches, audits) are taken with a
notice; those of what is not built yet are refused, as to take them would be a lie.

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
from holdfast.model.destination import Kind, parse_destination
from holdfast.model.forwarding import Forwarding, read_forwards
from holdfast.model.policy_option import (
    FORWARD_TO,
    MIRRORED,
    NAMES,
    VIRTUAL_TOPIC,
    VIRTUAL_TOPIC_POSTFIX,
    VIRTUAL_TOPIC_PREFIX,
    PolicyOption,
    Value,
)
from holdfast.model.policy_options import (
    BY_NAME,
    FALSE,
    OPTIONS,
    SYNONYMS,
    TRUE,
)
from holdfast.model.redelivery import KEYS, Redelivery
from holdfast.model.reserved_names import why_reserved
from holdfast.model.unobeyed_keys import DECLINED, MOOT, UNBUILT
from holdfast.model.virtual_topics import (
    DEFAULT_FORM,
    Form,
    is_virtual,
    require_postfix,
    require_prefix,
)

_NUMBERS_END: Final = 1e9
_SIGNED: Final = re.compile(r"(-?)(\d{1,12})", re.ASCII)
_DECIMAL: Final = re.compile(r"\d{1,9}(?:\.\d{1,9})?", re.ASCII)

_WRITTEN: Final = ("queue://", "topic://", "/queue/", "/topic/", "/temp-")
"""How a destination begins where its kind is told: no name is meant to."""

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


def read_values(kind: Kind, said: Mapping[str, object], *, is_of_log: bool = False) -> Spoken:
    """
    Read what is said of destinations of a kind: as it was written, or as a number or text.

    Args:
        is_of_log: It was taken before, maybe by a version that refused less; it still counts.
    """
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
                if option.name in values:
                    raise ValueError(f"{option.name} is said twice: it is the same key")
                found = _read_value(option, value)
                if not is_of_log:
                    _require_of_use(option, str(found))
                values[option.name] = found
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
    option = OPTIONS.get(SYNONYMS.get(name, name))
    if option is None:
        raise ValueError(_why_not(name, is_near_told=is_near_told))
    if not option.is_of(kind):
        raise ValueError(f"is a key of {option.kind.value}s, and the pattern is of {kind.value}s")
    return option


def _why_not(name: str, *, is_near_told: bool) -> str:
    if name in UNBUILT:
        return "is not built yet: nothing would obey it"
    if name in DECLINED:
        return f"nothing obeys it here; {DECLINED[name]}"
    if not is_near_told:
        return "unknown key"
    near = difflib.get_close_matches(name[:80], [*OPTIONS, *MOOT, *UNBUILT, *DECLINED], n=1)
    return "unknown key" + (f"; did you mean {near[0]}?" if near else "")


def _read_value(option: PolicyOption, value: object) -> Value:
    if option.is_number:
        number = _read_number(value, is_decimal=option.is_decimal)
        if number is None or not _fits(number, option):
            raise ValueError(f"{_shown(value)} is out of range; allowed: {option.says_allowed}")
        return number
    if isinstance(value, bool) and option.choices == (FALSE, TRUE):
        return TRUE if value else FALSE
    if option.is_list and isinstance(value, list) and all(isinstance(it, str) for it in value):
        value = ", ".join(value)
    if not isinstance(value, str):
        raise ValueError(f"{_shown(value)} is no text; allowed: {option.says_allowed}")
    if option.choices and value not in option.choices:
        raise ValueError(f"{_shown(value)} is not one of them; allowed: {option.says_allowed}")
    if option.is_name:
        _require_name(option, value)
    if option.is_around:
        _require_around(option, value)
    return _read_list(option, value) if option.is_list else value


def _require_around(option: PolicyOption, value: str) -> None:
    """Make sure that this can stand around the names of topics in those of queues."""
    if not _fits(len(value.encode()), option):
        raise ValueError(f"{_shown(value)} is too long; allowed: {option.says_allowed}")
    try:
        (require_prefix if option.name == VIRTUAL_TOPIC_PREFIX else require_postfix)(value)
    except ValueError as error:
        raise ValueError(f"{_shown(value)}: {error}") from None


def _read_list(option: PolicyOption, value: str) -> str:
    size = len(value.encode())
    assert option.allowed is not None and option.allowed.most is not None, "it has a range"
    if size > option.allowed.most:
        raise ValueError(f"{size:,} bytes; at most {option.allowed.most:,}")
    if value.strip():
        read_forwards(value)
    return value.strip()


def _require_of_use(option: PolicyOption, value: str) -> None:
    """
    Refuse what could be read and would never work.

    Raises:
        ValueError: Messages would go where nobody can put any, or a selector was forgotten.
    """
    if option.is_name:
        rest = NAMES[option.name]
        name = rest + value if option.name.endswith("Suffix") else value + rest
        why = why_reserved(name)
        if why:
            raise ValueError(f"{_shown(value)}: {why}")
    elif option.is_list and value:
        for forward in read_forwards(value):
            where = forward.destination
            why = why_reserved(where.name)
            if why:
                raise ValueError(f"'{where}': {why}")
            if where.name.lower().endswith(" when"):
                raise ValueError(f"'{where}': behind 'when' a selector must follow")


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
    return (base or Redelivery())._replace(**said)


def _require_name(option: PolicyOption, value: str) -> None:
    """Make sure that a queue can be called so, and that consumers can say its name."""
    if not _fits(len(value.encode()), option) or not value.isprintable():
        raise ValueError(f"{_shown(value)} is no such name; allowed: {option.says_allowed}")
    if value.startswith(_WRITTEN):
        raise ValueError(f"{_shown(value)}: write the name alone, without what stands before it")
    rest = NAMES[option.name]
    name = rest + value if option.name.endswith("Suffix") else value + rest
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


def forwarding_from(values: Mapping[str, Value]) -> Forwarding | None:
    """Give what policies say of where messages go; None: where they are sent."""
    is_mirrored = values.get(MIRRORED) == TRUE
    said = str(values.get(FORWARD_TO, ""))
    if not (said or is_mirrored):
        return None
    return Forwarding(
        read_forwards(said) if said else (),
        is_only=bool(said) and values.get("forwardOnly", TRUE) == TRUE,
        keeps_unmatched=values.get("sendWhenNotMatched") == TRUE,
        is_mirrored=is_mirrored,
    )


def form_from(topic: str, values: Mapping[str, Value]) -> Form | None:
    """Give how the queues of a topic are called, by what policies say; None: it has none."""
    said = values.get(VIRTUAL_TOPIC, BY_NAME)
    if said == FALSE or (said == BY_NAME and not is_virtual(topic)):
        return None
    prefix = values.get(VIRTUAL_TOPIC_PREFIX, DEFAULT_FORM.prefix)
    return Form(str(prefix), str(values.get(VIRTUAL_TOPIC_POSTFIX, DEFAULT_FORM.postfix)))


def as_text(values: Mapping[str, Value]) -> str:
    """Write values as a record holds them: the same ones always as the same text."""
    if not values:
        return ""
    return json.dumps(values, ensure_ascii=False, sort_keys=True, separators=(",", ":"))


def moot_notice(names: tuple[str, ...]) -> str:
    """Say of keys that they were taken and mean nothing."""
    return f"{', '.join(sorted(set(names)))}: nothing is done with them, as there is no such thing"
