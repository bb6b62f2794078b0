"""Published tables without Spark: catalog, reading and upkeep of Iceberg tables."""
