"""
What proves the product, beside `tests/`: simulator, checkers, chaos, soak, ablations, promises.

Not part of the wheel. `make setup` lets the developers' environment import it from the repository.
"""
