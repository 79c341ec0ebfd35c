"""The consumer group of a query: where it begins, whose it is, what is committed."""
