"""FACTS: one SQL text per table, the engine that runs it on DuckDB, and what the judge reads: `IntervalFacts`.

`published.py` fills them from the Iceberg tables, `rounds.py` straight from a snapshot (`offsetguard check`,
without Spark). A record that is a table's row is defined with it, in `tables/`.
"""
