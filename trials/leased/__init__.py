"""Brokers over one log that several reach: a model of the medium, and worlds in virtual time."""
