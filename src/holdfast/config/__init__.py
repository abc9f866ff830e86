"""Flags, environment and TOML to one checked configuration."""
