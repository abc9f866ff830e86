"""Pipelines over the log: archive, audit, restore, replay, report; each read, pure steps, write."""
