"""A broker's own files, read where the broker cannot be asked: offsets, topics, groups and, from the store, queues."""
