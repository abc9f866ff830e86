"""
What the broker refuses, as the class that the methods promise; and errors that are told again.
"""

from __future__ import annotations

import traceback

import pytest

from holdfast.client.refusal import anew, refusal
from holdfast.errors import (
    ConfigError,
    DestinationError,
    ProducerForgottenError,
    QueueFullError,
    RefusedError,
    SelectorError,
    SequenceGapError,
    SlowConsumerError,
    StoreFullError,
    TransactionError,
    UnknownDeliveryError,
)
from holdfast.protocols.stomp.frames import Frame


def said(code: str, text: str) -> RefusedError:
    return refusal(Frame("ERROR", {"code": code, "message": text}, b""))


@pytest.mark.parametrize(
    "kind",
    [
        *(DestinationError, QueueFullError, SlowConsumerError, StoreFullError),
        *(TransactionError, UnknownDeliveryError),
    ],
)
def test_a_code_is_a_class(kind: type[RefusedError]) -> None:
    """With the broker's words and code."""
    error = said(kind.code, "no")
    assert (type(error), str(error), error.code) == (kind, "no", kind.code)


@pytest.mark.parametrize("kind", [SequenceGapError, ProducerForgottenError])
def test_a_gap_has_its_fields(kind: type[SequenceGapError]) -> None:
    """As the broker's own error would: it is read from its sentence."""
    theirs = kind("p:1", expected=3, found=7)
    error = said(kind.code, str(theirs))
    assert isinstance(error, kind)
    assert (str(error), error.code) == (str(theirs), kind.code)
    assert (error.producer_id, error.expected, error.found) == ("p:1", 3, 7)


def test_a_selector_has_its_column() -> None:
    """As the broker's own error would; of a sentence without one it is a refusal like another."""
    theirs = SelectorError("unexpected 'AN'; expected AND", column=1234)
    error = said(SelectorError.code, str(theirs))
    assert isinstance(error, SelectorError)
    assert (str(error), error.column, error.code) == (str(theirs), 1234, theirs.code)
    assert isinstance(again := anew(error), SelectorError)
    assert (str(again), again.column) == (str(theirs), 1234)
    for sentence in ("it is wrong", "selector, column 99999: x", "selector, column : x"):
        error = said(SelectorError.code, sentence)
        assert (type(error), str(error), error.code) == (RefusedError, sentence, theirs.code)


def test_what_nobody_knows_is_a_refusal() -> None:
    """Another broker's codes and sentences, or none."""
    assert type(said("elsewhere", "no")) is RefusedError
    assert said("elsewhere", "no").code == "elsewhere"
    assert type(said(SequenceGapError.code, "no numbers here")) is RefusedError
    for number in ("9" * 5_000, "\u0663"):  # No number of a producer's.
        text = f"producer p: expected {number}, found 7"
        assert type(said(SequenceGapError.code, text)) is RefusedError
    error = refusal(Frame("ERROR", {}, b" why not "))
    assert (type(error), str(error), error.code) == (RefusedError, "why not", "refused")
    assert "without a word" in str(refusal(Frame("ERROR", {}, b"")))


def test_told_again_it_is_another_object() -> None:
    """Everything of it but the traceback, which would grow with everyone who hears of it."""
    cause = ValueError("why")
    errors: list[Exception] = [
        SequenceGapError("p", expected=1, found=2),
        ConfigError(["one", "two"]),
        said("elsewhere", "no"),
    ]
    for error in errors:
        error.__cause__ = cause
        for _ in range(3):
            with pytest.raises(type(error)) as caught:
                raise anew(error)
            found = caught.value
            assert found is not error
            assert (str(found), found.__dict__) == (str(error), error.__dict__)
            assert found.__cause__ is cause
            assert len(traceback.extract_tb(found.__traceback__)) == 1
        assert error.__traceback__ is None
