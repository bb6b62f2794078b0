"""One file per revision, named after it."""
