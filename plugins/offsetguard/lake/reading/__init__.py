"""Published facts, read without Spark: the catalog, the plan of files, the files, and what they hold."""
