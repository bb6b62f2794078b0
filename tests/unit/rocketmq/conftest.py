"""Hypothesis judges here by outcome: on a busy machine an example may take long without being wrong."""

from hypothesis import settings

settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")
