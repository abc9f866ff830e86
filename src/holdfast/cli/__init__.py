"""The `holdfast` command: one module per group of commands."""
