"""How people are reached: one small file per channel; payloads are built in `messages`."""
