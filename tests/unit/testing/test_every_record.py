"""The records that the suite of stores sends are all there are, and are compared whole."""

from __future__ import annotations

from dataclasses import fields
from typing import get_args

from holdfast.model.records import MessageRecord, Record
from holdfast.testing.every_record import one_of_each, told_by


def test_every_kind_of_record_and_of_fact_is_there() -> None:
    """One that is new must be there too."""
    records = one_of_each()
    assert {type(record) for record in records} == set(get_args(Record))
    facts = [it.facts for it in records if isinstance(it, MessageRecord) and it.facts is not None]
    assert len(facts) == 1
    assert all(getattr(facts[0], it.name) not in (None, (), b"") for it in fields(facts[0]))


def test_no_field_is_left_out_of_the_comparison() -> None:
    """Whatever is changed in a record, it does not look the same any more."""
    for place, record in enumerate(one_of_each()):
        assert told_by(record) == told_by(one_of_each()[place])
        for name in type(record).__slots__:
            changed = one_of_each()[place]
            setattr(changed, name, b"another" if name in {"headers", "body"} else ["another"])
            assert told_by(changed) != told_by(record), name
