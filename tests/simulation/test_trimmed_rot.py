"""
A witness leads, and is asked for what it has trimmed, by a data node on which that has rotted.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import first_with
from trials.safeguards.ablation import catch
from trials.safeguards.logs import ABLATIONS
from trials.simulation.faults import focused
from trials.troubles.trimmed_rot import MENDED, TRIMMED_ROT

(ABLATION,) = (it for it in ABLATIONS if it.kinds == (TRIMMED_ROT,))


@pytest.mark.promise("F35")
@pytest.mark.parametrize("happened", [TRIMMED_ROT, MENDED])
def test_the_one_that_is_back_mends_it(happened: str) -> None:
    """Until then it waits: what is written in it lives."""
    assert first_with(happened, lambda seed: focused(seed, (TRIMMED_ROT,), topology="witness"))


def test_a_witness_that_lets_it_go_is_noticed() -> None:
    """It told who asked to begin with its own log, and so to drop what lives."""
    caught = catch(ABLATION, range(1, 41))

    assert caught is not None
    assert "S18" in caught[1]
