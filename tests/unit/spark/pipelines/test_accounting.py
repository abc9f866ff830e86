"""The account itself; its steps are tested on Spark (tests/spark/test_audit.py)."""

from __future__ import annotations

from holdfast.spark.pipelines.accounting import FATES, Account


def test_an_account_is_balanced_when_every_message_has_one_fate() -> None:
    """
    The fates add up to the messages, whichever there are.
    """
    account = Account(messages=5)

    assert not account.is_balanced
    account.fates["live"] = 3
    account.fates["purged"] = 2
    assert account.is_balanced
    assert set(FATES) == set(account.fates)
