"""
Who gets messages of a queue on which not all consumers are equal.
"""
