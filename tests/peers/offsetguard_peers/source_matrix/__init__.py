"""What each replica of each RocketMQ version tells, measured on real brokers."""
