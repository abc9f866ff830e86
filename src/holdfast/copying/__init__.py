"""One log from any place where a log is kept to any other."""
