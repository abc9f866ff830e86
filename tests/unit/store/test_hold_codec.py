"""
Holds of this version and of earlier ones; their bytes are in `test_record_codec`.
"""

from __future__ import annotations

import struct

import pytest

from holdfast.model.records import HoldLoss, HoldRecord
from holdfast.store.hold_codec import FLAG_TIMED, decode_hold, decode_timed_hold, encode_hold


def test_what_earlier_versions_wrote_is_written_so_still() -> None:
    """
    A hold that says nothing of its age has no flag: an earlier version reads it.
    """
    flags, payload = encode_hold(HoldRecord("r\u00e9ader", 3, 4, 5))
    assert flags == 0
    found = decode_hold(payload)
    assert (found.name, found.index, found.bytes_max) == ("r\u00e9ader", 3, 4)
    assert (found.lost_through, found.expiry_seconds, found.loss) == (5, 0, HoldLoss.NONE)


@pytest.mark.parametrize(
    "more", [{"expiry_seconds": 9}, {"renewed_at": 9}, {"loss": HoldLoss.SPACE}]
)
def test_whatever_is_said_of_its_age_is_kept(more) -> None:
    """
    Each of the three is enough for the flag.
    """
    flags, payload = encode_hold(HoldRecord("a", 1, 2, **more))
    assert flags == FLAG_TIMED
    found = decode_timed_hold(payload)
    (name,) = more
    assert getattr(found, name) == more[name]
    with pytest.raises(struct.error):
        decode_timed_hold(payload[:30])
