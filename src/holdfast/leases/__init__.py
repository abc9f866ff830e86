"""A log that one of several brokers may write at a time: the contract, and the driver over it."""
