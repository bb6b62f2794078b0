"""Hostile bytes for every reader of bytes from outside."""
