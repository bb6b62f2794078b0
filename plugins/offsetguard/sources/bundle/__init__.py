"""Support bundles: what a cluster answered, as raw bodies in a folder, written by `record` and replayed offline."""
