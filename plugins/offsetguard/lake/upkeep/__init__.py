"""What must be done now and then, so that files, metadata and rows stay bounded."""
