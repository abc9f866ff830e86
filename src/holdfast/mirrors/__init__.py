"""
Mirrors: several copies of one store, of which some may fail, be replaced and come back.

Who holds what was confirmed and may go on with it is decided without a file (`mirror_set`).
"""
