"""The shared words of messaging: values only."""
