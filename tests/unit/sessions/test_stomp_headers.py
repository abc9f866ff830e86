"""
Headers of requests: what is read from them, and what is refused.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.errors import DestinationError, RefusedError
from holdfast.model.groups import group_hash
from holdfast.sessions.stomp_headers import read_group, read_mode, unknown_name


def test_modes_are_those_of_the_specification() -> None:
    """
    Anything else is named in the refusal, with what there is.
    """
    assert read_mode("client-individual") is AcknowledgeMode.INDIVIDUAL
    with pytest.raises(DestinationError, match="expected one of auto, client"):
        read_mode("sometimes")


def test_an_unknown_name_is_repeated() -> None:
    """
    A client's developer finds it in the program.
    """
    assert "'5-6'" in str(unknown_name(b"5-6"))


@pytest.mark.parametrize("sequence", ["0", " 7", "-1", "+3", "2147483647", "-2147483648"])
def test_a_group_may_have_numbers(sequence) -> None:
    """
    Of 32 bits with a sign, as JMS has them; a number without a group is of nothing.
    """
    said = {"JMSXGroupID": "a", "JMSXGroupSeq": sequence}
    assert read_group(said) == group_hash("a")
    assert read_group({"JMSXGroupSeq": sequence}) == read_group({"JMSXGroupID": ""}) == 0


@pytest.mark.parametrize("sequence", ["", "one", "1.0", "2147483648", "-2147483649", "٣", "1_0"])
def test_what_is_no_number_in_a_group_is_refused(sequence) -> None:
    """
    Kept, it would mislead whoever closes groups by it; the sentence shows what came.
    """
    with pytest.raises(RefusedError, match=r"JMSXGroupSeq: .* is not a number from -2\^31"):
        read_group({"JMSXGroupID": "a", "JMSXGroupSeq": sequence})
