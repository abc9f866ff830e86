"""A log as Spark's tasks read it: from a directory or a cluster, in blocks, proven by the chain."""
