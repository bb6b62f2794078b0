"""Hypothesis without deadlines: pyarrow's first import takes seconds on a busy machine."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
