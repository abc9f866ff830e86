"""What a protocol's events mean to the broker, one connection at a time. Still pure."""
