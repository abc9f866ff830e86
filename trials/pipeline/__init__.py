"""What the pipeline is tried with: Spark clusters, an S3 server that fails, written logs."""
