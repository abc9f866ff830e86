"""The data pipeline on Apache Spark: the data source `holdfast` and what is built on it."""
