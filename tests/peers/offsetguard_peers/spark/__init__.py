"""Spark clusters and jobs as processes."""
