"""A whole cluster with its clients, disks, links and clocks in virtual time, from a seed."""
