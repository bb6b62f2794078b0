"""The nouns that all stages speak of, as small records: queues, offsets, intervals, verdicts, incidents, messages."""
