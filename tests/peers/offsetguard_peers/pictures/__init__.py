"""Screenshots, and the pictures of the docs."""
