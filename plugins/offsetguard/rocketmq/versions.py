"""Names of versions: clients and brokers send the ordinal of Java's enum MQVersion.

From V4_0_0 (213) on there are ten minor versions of ten patches each, every one with a SNAPSHOT before it: V4_9_8 is
409, V5_0_0_SNAPSHOT 412, V5_0_0 413, V5_3_3 479, V5_5_1 515.
Source: org.apache.rocketmq.common.MQVersion, 4.9.8 and 5.5.0.
"""

from __future__ import annotations

_V4_0_0 = 213
_PER_MINOR = 20
_PER_MAJOR = 10 * _PER_MINOR


def version_name(ordinal: int) -> str:
    """Return e.g. "4.9.8" or "5.0.0-SNAPSHOT"; the number itself for versions before 4.0."""
    released = ordinal + 1 if ordinal % 2 == 0 else ordinal  # a SNAPSHOT stands before its release
    if released < _V4_0_0:
        return str(ordinal)
    major, rest = divmod(released - _V4_0_0, _PER_MAJOR)
    minor, patch = divmod(rest, _PER_MINOR)
    return f"{4 + major}.{minor}.{patch // 2}" + ("-SNAPSHOT" if released != ordinal else "")
