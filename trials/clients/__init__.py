"""Clients that keep books, and clients that mean harm: loads of real brokers over real sockets."""
