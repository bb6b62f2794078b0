"""What the codecs raise for bytes that are not what RocketMQ sends.

The codecs know no address; `client.py` turns this into `errors.UndecodableResponse`, which names the peer.
"""

from __future__ import annotations


class MalformedBytes(ValueError):
    """Bytes that cannot be decoded; the text names the field and what was found there."""
