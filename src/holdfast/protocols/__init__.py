"""
Wire protocols: bytes to events and back, without I/O, clock or broker.

One package per protocol, used by both `sessions` (as server) and `client` (as client).
"""
