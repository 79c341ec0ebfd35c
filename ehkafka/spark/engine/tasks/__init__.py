"""What runs in Spark's executors: an app's handlers over one task's records."""
