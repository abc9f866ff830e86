"""Holdfast: a message broker whose messages outlive the process, the disk and the machine."""

__version__ = "0.1.0"
