"""
What the plans of ablations are bent to: a log that cleaning goes through, and long ways to it.

Each adds to a plan and leaves its kinds of trouble as they are: what is to happen beside it is said
by the ablation.
"""

from __future__ import annotations

from trials.simulation.faults import Plan


def turn_the_log_over(plan: Plan) -> None:
    """Make the log so small that it turns over within the chaos, beside whatever else happens."""
    plan.segment_bytes = 8 * 1024
    plan.operations = max(plan.operations, 1_500)
    plan.chaos_seconds = max(plan.chaos_seconds, 8.0)


def turn_the_log_over_on_slow_disks(plan: Plan) -> None:
    """Let cleaning meet what is on its way to the log: that takes long."""
    turn_the_log_over(plan)
    plan.operations = max(plan.operations, 2_500)
    plan.sync_seconds = (0.1, 0.3)
