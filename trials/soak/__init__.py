"""
Long runs of a real cluster under mixed traffic and mild faults: `make soak HOURS=…`.

What must stay flat is measured each second and judged by its slope; what was confirmed is accounted
for to the last message. Samples are written as they come, so an aborted run has its report too.
"""
