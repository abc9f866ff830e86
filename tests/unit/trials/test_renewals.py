"""
A renewal that is read into what is in use is noticed.
"""

from __future__ import annotations

import pytest

from trials.safeguards.ablation import Ablation, catch
from trials.safeguards.renewals import ABLATIONS


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_each_safeguard_is_missed(ablation: Ablation) -> None:
    """With it nothing is broken, without it the first seed says what."""
    assert catch(ablation, [1]) is not None
