"""The embedded world of `make demo`, and the same as services of docker-compose.yml."""
