"""What survives: only `apply` writes it, the same on every node."""
