"""What rules share: lookups, figures and conclusions about one group, topic or broker."""
