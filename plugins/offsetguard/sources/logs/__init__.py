"""Logs of brokers and clients: patterns as data, records, tailing with a cursor, and the rows that are landed."""
