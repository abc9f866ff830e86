"""One log in several databases that know nothing of each other (RAIDb-1)."""
