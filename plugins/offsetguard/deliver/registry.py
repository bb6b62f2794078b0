"""All channels, found in `channels/`: one file, one class of the shape that `channels/channel.py` gives."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules

from offsetguard.deliver import channels
from offsetguard.deliver.channels.channel import Way


def _found() -> Iterator[type[Way]]:
    for one in iter_modules(channels.__path__, f"{channels.__name__}."):
        module = import_module(one.name)
        for name in vars(module).values():
            if isinstance(name, type) and issubclass(name, Way) and name.__module__ == one.name and name is not Way:
                yield name


CHANNELS = {channel.CHANNEL: channel for channel in _found()}
