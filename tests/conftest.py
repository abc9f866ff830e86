"""
What every test shares: how hard Hypothesis tries.

`dev` is quick and random, `ci` the same every time (a failure there is a failure here), `full` is
for the night. CI=true selects `ci`; HOLDFAST_HYPOTHESIS selects one by name.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# No deadline: these machines are shared, and a slow moment is not a failure.
COMMON = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}

settings.register_profile("dev", max_examples=50, print_blob=True, **COMMON)
settings.register_profile("ci", max_examples=100, derandomize=True, database=None, **COMMON)
settings.register_profile("full", max_examples=2_000, print_blob=True, **COMMON)
settings.load_profile(
    os.environ.get("HOLDFAST_HYPOTHESIS", "ci" if os.environ.get("CI") else "dev")
)
