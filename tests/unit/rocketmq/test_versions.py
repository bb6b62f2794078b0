"""Versions as clients and brokers send them, and as people call them."""

from __future__ import annotations

import pytest

from offsetguard.sources.rocketmq.codes import version_name


@pytest.mark.parametrize(
    ("ordinal", "name"),
    [
        (399, "4.9.3"),
        (401, "4.9.4"),
        (409, "4.9.8"),
        (412, "5.0.0-SNAPSHOT"),
        (413, "5.0.0"),
        (433, "5.1.0"),
        (473, "5.3.0"),
        (479, "5.3.3"),
        (493, "5.4.0"),
        (515, "5.5.1"),
        (213, "4.0.0"),
        (31, "31"),
        (-1, "-1"),
    ],
)
def test_an_ordinal_has_the_name_that_live_brokers_and_clients_give_it(ordinal: int, name: str) -> None:
    assert version_name(ordinal) == name
