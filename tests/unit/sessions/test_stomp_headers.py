"""
Headers of requests: what is read from them, and what is refused.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.errors import DestinationError
from holdfast.sessions.stomp_headers import read_mode, unknown_name


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
