"""A real SMTP server, and a page of what it received."""
