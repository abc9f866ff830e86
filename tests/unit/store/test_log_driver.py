"""Tests of store/log_driver.py: both drivers have what a store asks of them."""

from __future__ import annotations

import inspect

import pytest

from holdfast.leases.driver import LeasedDriver
from holdfast.replication.driver import Driver
from holdfast.store.contract import Tenure
from holdfast.store.log_driver import LogDriver

WORDS = [name for kind in (LogDriver, Tenure) for name in vars(kind) if not name.startswith("_")]


@pytest.mark.parametrize("driver", [Driver, LeasedDriver])
@pytest.mark.parametrize("word", WORDS)
def test_each_driver_knows_each_word(driver: type, word: str) -> None:
    """With the same parameters: a store never asks which of them it has."""
    asked, found = inspect.getattr_static(LogDriver, word), inspect.getattr_static(driver, word)

    assert isinstance(asked, property) == isinstance(found, property)
    if not isinstance(asked, property):
        assert list(inspect.signature(asked).parameters) == list(
            inspect.signature(found).parameters
        )
