"""A disk's size is read as brokers print it, and nothing else is taken for one."""

import pytest

from offsetguard.sources.rocketmq.brokers import BrokerRuntimeInfo


@pytest.mark.parametrize(
    ("printed", "size"),
    [
        ("Total : 252.0 GiB, Free : 67.2 GiB.", 252 * 1024**3),
        ("Total : 8.7 TiB, Free : 7.7 TiB.", int(8.7 * 1024**4)),
        ("Total : 512 B, Free : 1 B.", 512),
        ("Total : 252,0 GiB, Free : 67,2 GiB.", None),
        ("Total : -1 GiB", None),
        ("Total : 1.0 GB", None),
        ("", None),
    ],
)
def test_the_size_of_the_commit_logs_disk(printed: str, size: int | None) -> None:
    assert BrokerRuntimeInfo({"commitLogDirCapacity": printed}).commit_log_disk_bytes == size
