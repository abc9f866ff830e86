"""What the ports of clients and operators have in common: who comes in, and by TLS or in clear."""
