"""Published tables written without Spark."""
