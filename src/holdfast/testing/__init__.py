"""
What Holdfast offers to the tests of its users: brokers and clusters, and its contracts as suites.

`running` has them for a `with`, `fixtures` for pytest, `contracts` what every store must do.
"""
