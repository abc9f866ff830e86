"""Blocks of log entries to Arrow columns: one module for each view, and the schema of them all."""
