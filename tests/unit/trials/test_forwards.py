"""
Whoever listens on the way is noticed as soon as what keeps him out is gone.
"""

from __future__ import annotations

import pytest

from trials.safeguards.ablation import Ablation, catch
from trials.safeguards.forwards import ABLATIONS


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_each_safeguard_is_missed(ablation: Ablation) -> None:
    """With it nothing is broken, without it the first seed says what."""
    assert catch(ablation, [1]) is not None
