"""
Nameservers as operators run them, for tests: each starts its own and ends it.
"""
