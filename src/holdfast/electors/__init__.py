"""Places that elect one of several brokers over one log: etcd and ZooKeeper; they fence nothing."""
