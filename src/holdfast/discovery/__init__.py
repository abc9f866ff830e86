"""
Where brokers may be: candidates that a source names, such as the records of a name in DNS.

A source finds; it never founds or trusts. Who answers at a candidate's address shows by TLS, by the
login and by its term who it is, as it must where the address was written down.
"""
