"""Real peers for tests, demo and benchmarks: RocketMQ clusters and clients, an SMTP server, a strict Slack server."""
