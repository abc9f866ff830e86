"""STOMP 1.0, 1.1 and 1.2 in both roles; start reading at `connection`."""
