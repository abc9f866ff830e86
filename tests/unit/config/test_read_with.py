"""
A function beside a type reads what stands for it.
"""

from __future__ import annotations

from holdfast.config.address import Address
from holdfast.config.catalogue import CATALOGUE
from holdfast.config.plain_values import plain_value
from holdfast.config.read_with import ReadWith


def test_what_is_read_by_a_function_is_of_the_type_beside_it() -> None:
    """
    Also where it may be left out.
    """
    assert plain_value(CATALOGUE["stomp"].hint, "h:1") == Address("h", 1)
    assert plain_value(CATALOGUE["peers"].hint, "h:1") == Address("h", 1)
    assert plain_value(CATALOGUE["peers"].hint, None) is None


def test_it_is_told_apart_by_what_reads() -> None:
    """
    It stands in annotations, which are compared.
    """
    assert ReadWith(str) == ReadWith(str) != ReadWith(repr)
