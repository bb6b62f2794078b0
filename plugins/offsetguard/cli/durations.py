"""Spans of time on the command line: `500ms`, `10s`, `5m`, `1h`, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta

import click

_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)(ms|s|min|m|h|d)")
_UNIT_S = {"ms": 0.001, "s": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


class Duration(click.ParamType["timedelta"]):
    """Takes a text, gives a timedelta."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> timedelta:
        """Fail with an example for everything that is no duration."""
        match = _DURATION.fullmatch(str(value).strip())
        if match is None:
            self.fail(f"{value!r} is no duration; write for example 500ms, 10s, 1min or 7d", param, ctx)
        return timedelta(seconds=float(match[1]) * _UNIT_S[match[2]])
