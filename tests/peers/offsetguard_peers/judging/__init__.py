"""Clusters judged minute by minute, without a broker."""
