"""Ways to reach people: one small file per channel; payloads are built in `messages`."""
