"""What all ports have in common: who may come in, and who goes when it is full."""
