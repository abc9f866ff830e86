"""
`holdfast queues`: its commands, put together of what queues hold and of what holds for them.

The two stand in modules of their own, which do not know each other's commands; whoever asks for the
group gets both.
"""

from __future__ import annotations

import typer

from holdfast.cli import destinations, policies


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    policies.register(destinations.queues)
    destinations.register(app)
