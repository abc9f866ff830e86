"""A log in the rows of a SQL database that several brokers reach, of which one writes at a time."""
