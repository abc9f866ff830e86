"""
What makes a program unpredictable, each behind a small contract with one real implementation.

The clock, the disk and chance live here. The fourth, the network, is `transport`.
"""
