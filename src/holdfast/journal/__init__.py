"""
The append-only log on disk: entries in segments, the ballot, checkpoints, recovery.

It knows nothing of messages: an entry's body is bytes to it.
"""
