"""Servers of directories that tests start, in a folder of their own."""
