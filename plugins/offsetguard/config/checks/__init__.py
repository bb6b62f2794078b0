"""What is wrong with a configuration file that holds: it says something else than what its author can have meant."""
