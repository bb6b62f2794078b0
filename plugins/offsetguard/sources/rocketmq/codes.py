"""Numbers of the remoting protocol, requests, responses, languages and versions; and refusals, by their codes.

From V4_0_0 (213) on there are ten minor versions of ten patches each, every one with a SNAPSHOT before it: V4_9_8 is
409, V5_0_0_SNAPSHOT 412, V5_0_0 413, V5_3_3 479, V5_5_1 515.
Source: org.apache.rocketmq.common.MQVersion, 4.9.8 and 5.5.0.

Names and numbers are those of apache/rocketmq 4.9.8 and 5.3.3 (`common.protocol` / `remoting.protocol`).
RequestCode holds only what OffsetGuard sends, all of it read-only, and what a broker may send to us.

BrokerRefused (offsetguard.model.errors)
 +-- BrokerSystemError          1   the broker failed; its remark says why
 |    +-- NotThere              1   nothing failed: what was asked for is not there (38, 307, 315)
 +-- SystemBusy            2, 215   flow control or a slave that serves no reads      (retry helps)
 +-- RequestCodeNotSupported    3   the broker is too old, or it is a proxy
 +-- ServiceNotAvailable       14   e.g. disk full, shutting down                      (retry helps)
 +-- AccessDenied              16   and code 1 with an AclException (4.x)
 +-- TopicNotExist             17
 +-- ConsumerNotOnline        206   the group has no connected client
 +-- ClientTimedOut           207   the client that the broker asked for us (307) did not answer

Codes and remarks: `ResponseCode`, `RemotingSysResponseCode` (apache/rocketmq 4.9.8, 5.3.3).
"""

import re
from enum import IntEnum

from offsetguard.model.errors import BrokerRefused

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


class RequestCode(IntEnum):
    """Requests that we send, and the one that brokers send to clients (40)."""

    PULL_MESSAGE = 11
    GET_ALL_TOPIC_CONFIG = 21
    GET_BROKER_CONFIG = 26
    GET_BROKER_RUNTIME_INFO = 28
    SEARCH_OFFSET_BY_TIMESTAMP = 29
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    GET_EARLIEST_MSG_STORETIME = 32
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    GET_ALL_CONSUMER_OFFSET = 43
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG = 201
    GET_TOPIC_STATS_INFO = 202
    GET_CONSUMER_CONNECTION_LIST = 203
    GET_CONSUME_STATS = 208
    QUERY_CONSUME_TIME_SPAN = 303
    GET_SYSTEM_TOPIC_LIST_FROM_BROKER = 305
    GET_CONSUMER_RUNNING_INFO = 307
    VIEW_BROKER_STATS_DATA = 315
    GET_BROKER_HA_STATUS = 907


SENT = frozenset(RequestCode) - {RequestCode.NOTIFY_CONSUMER_IDS_CHANGED}
"""What may leave for a broker or a name server; a connection sends nothing else."""


class ResponseCode(IntEnum):
    """Answers that mean something to us; a broker may send others."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    CONSUMER_NOT_ONLINE = 206
    CONSUME_MSG_TIMEOUT = 207
    FLOW_CONTROL = 215


class LanguageCode(IntEnum):
    """The sender's language: its name in JSON headers, its number in compact ones."""

    JAVA = 0
    CPP = 1
    DOTNET = 2
    PYTHON = 3
    DELPHI = 4
    ERLANG = 5
    RUBY = 6
    OTHER = 7
    HTTP = 8
    GO = 9
    PHP = 10
    OMS = 11
    RUST = 12
    NODE_JS = 13


class SerializeType(IntEnum):
    """How a header is written; the first byte of the header-length word."""

    JSON = 0
    ROCKETMQ = 1  # the compact binary header


HEADER_VERSION = 401  # MQVersion V4_9_4: from here on name servers answer routes in strict JSON


class BrokerSystemError(BrokerRefused):
    """The broker failed while it handled the request."""


class NotThere(BrokerSystemError):
    """What was asked for is not there: nothing counted yet (315), client (307) or group (38) not connected."""


class SystemBusy(BrokerRefused):
    """The broker rejects requests for the moment."""

    advice = "the broker is overloaded, or a slave that serves no reads; it will be asked again"


class RequestCodeNotSupported(BrokerRefused):
    """The peer does not know the request. (A name server of 4.9 says nothing instead, and the request times out.)"""

    advice = "the peer is too old for this request, or not a broker (a name server, or a proxy)"


class ServiceNotAvailable(BrokerRefused):
    """The broker is up and does not serve."""

    advice = "look at the broker's disk and at its log"


class AccessDenied(BrokerRefused):
    """The login is missing, wrong, or may not read this."""

    advice = (
        "check access key and secret key of this cluster's connection (on the command line: the environment variables "
        "OFFSETGUARD_ACCESS_KEY and OFFSETGUARD_SECRET_KEY), and that the account may read "
        "topics, groups and cluster settings (plain_acl.yml in 4.x, users and ACLs in 5.x); a pull is also refused so "
        "when the broker, topic or group forbids reading"
    )


class TopicNotExist(BrokerRefused):
    """The topic is not on this broker, or on no broker when a name server says so."""


class ConsumerNotOnline(BrokerRefused):
    """The group has no connected client."""


class ClientTimedOut(BrokerRefused):
    """The broker asked a client for us, and the client did not answer within 10 s."""


_BY_CODE: dict[int, type[BrokerRefused]] = {
    ResponseCode.SYSTEM_ERROR: BrokerSystemError,
    ResponseCode.SYSTEM_BUSY: SystemBusy,
    ResponseCode.FLOW_CONTROL: SystemBusy,
    ResponseCode.REQUEST_CODE_NOT_SUPPORTED: RequestCodeNotSupported,
    ResponseCode.SERVICE_NOT_AVAILABLE: ServiceNotAvailable,
    ResponseCode.NO_PERMISSION: AccessDenied,
    ResponseCode.TOPIC_NOT_EXIST: TopicNotExist,
    ResponseCode.CONSUMER_NOT_ONLINE: ConsumerNotOnline,
    ResponseCode.CONSUME_MSG_TIMEOUT: ClientTimedOut,
}
_NOT_THERE = re.compile(r"The stats <.*> not exist|The Consumer <.*> not online|no consumer for this group", re.DOTALL)
"""What AdminBrokerProcessor (315, 307) and ConsumerManageProcessor (38) say with code 1, 4.9.7 to 5.5.1."""
_REMARK_START = 1000  # characters; two names of 255 fit


def refusal(address: str, code: int, remark: str | None) -> BrokerRefused:
    """Return the error for an answer that is no success; an unknown code gives BrokerRefused itself."""
    if code == ResponseCode.SYSTEM_ERROR and remark is not None and "AclException" in remark:
        return AccessDenied(address, code, remark)
    if code == ResponseCode.SYSTEM_ERROR and remark is not None and _NOT_THERE.match(remark[:_REMARK_START]):
        return NotThere(address, code, remark)
    return _BY_CODE.get(code, BrokerRefused)(address, code, remark)
