"""What is read from outside: brokers, logs, support bundles, state files. Bytes in, typed records out."""
