"""Keeps records; says how far they are durable."""
