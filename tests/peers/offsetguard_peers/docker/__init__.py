"""Docker for tests, and the parts of docker-compose.yml."""
