"""Whatever the configuration may name as a receiver has a channel that reaches it."""

from __future__ import annotations

from offsetguard.config.routes import RECEIVER_LISTS
from offsetguard.deliver.deliver import CHANNELS
from offsetguard.model.notification import Channel


def test_every_kind_of_receiver_has_one_list_in_the_configuration_and_one_channel() -> None:
    assert set(CHANNELS) == set(Channel), "a file of deliver/channels/ says which CHANNEL it is"
    assert sorted(RECEIVER_LISTS.values()) == sorted(Channel), "config/routes.py says where its receivers stand"
