"""The data source `holdfast`: what Spark reads a log with, and what it writes to a queue with."""
