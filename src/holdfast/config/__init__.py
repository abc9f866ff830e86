"""Flags, environment and TOML to one checked configuration."""

from __future__ import annotations

from typing import Final

ENVIRONMENT_PREFIX: Final = "HOLDFAST_"
"""How the name of every variable begins that is ours."""
