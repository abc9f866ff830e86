"""Servers of ZooKeeper and etcd that tests start, kill and cut off, each in a folder of its own."""
