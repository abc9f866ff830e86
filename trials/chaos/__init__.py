"""
Chaos on one machine: real broker processes whose machines, disks, links and clocks fail on purpose.

The simulator shows that the rules are right; this shows that the program keeps them with real
processes, sockets, files and clients. `python -m trials.chaos --help` tells how.
"""
