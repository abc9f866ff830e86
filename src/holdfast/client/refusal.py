"""
Errors for the application: the class that a broker's code means, and one object for each raise.

A method promises `UnknownDeliveryError`, and the broker says `unknown-delivery` on the wire: here
the one becomes the other. What ended a connection is raised at every call after it, each time as
its own object: raised again and again, one would keep the frames of all who ever heard of it.
"""

from __future__ import annotations

import re
from typing import Final, TypeVar

from holdfast.errors import (
    DestinationError,
    NotServedError,
    ProducerFinishedError,
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

SLOW_CONSUMER: Final = SlowConsumerError.code
"""A subscription is ended, which the frame names."""

ErrorType = TypeVar("ErrorType", bound=BaseException)

_KINDS: dict[str, type[RefusedError]] = {
    kind.code: kind
    for kind in (
        *(DestinationError, NotServedError, ProducerFinishedError),
        *(QueueFullError, SlowConsumerError, StoreFullError),
        *(TransactionError, UnknownDeliveryError),
    )
}
_GAPS: dict[str, type[SequenceGapError]] = {
    kind.code: kind for kind in (ProducerForgottenError, SequenceGapError)
}
_GAP = re.compile(
    r"producer (?P<id>.*?)(?: is not known, or not any more)?: expected (?:sequence )?"
    r"(?P<expected>[0-9]{1,19}), found (?P<found>[0-9]{1,19})",
    re.DOTALL,
)
_COLUMN = re.compile(r"selector, column ([0-9]{1,3}(?:,[0-9]{3})?): (.+)", re.DOTALL)


def refusal(frame: Frame) -> RefusedError:
    """The error that an ERROR frame means; `code` is the broker's, whether we know it or not."""
    code = frame.headers.get("code", RefusedError.code)
    text = frame.headers.get("message") or frame.body.decode(errors="replace").strip()
    text = text or "refused without a word"
    error = _with_fields(code, text) or _KINDS.get(code, RefusedError)(text)
    # The broker's own words, whatever they add.
    error.args = (text,)
    error.code = code
    return error


def _with_fields(code: str, text: str) -> RefusedError | None:
    """Give an error that has more than a sentence, if all of it is in that."""
    if code in _GAPS and (found := _GAP.search(text)):
        expected, number = int(found["expected"]), int(found["found"])
        return _GAPS[code](found["id"], expected=expected, found=number)
    if code == SelectorError.code and (found := _COLUMN.fullmatch(text)):
        return SelectorError(found[2], column=int(found[1].replace(",", "")))
    return None


def anew(error: ErrorType) -> ErrorType:
    """The same error as another object, without the traceback of those who heard of it before."""
    kind = type(error)
    other = kind.__new__(kind)
    other.__dict__.update(error.__dict__)
    other.args = error.args
    other.__cause__ = error.__cause__
    other.__suppress_context__ = error.__suppress_context__
    return other
