"""A log in a directory that several machines reach, of which one writes at a time."""
