"""One log on several members: consensus, its driver, and the links between members."""
