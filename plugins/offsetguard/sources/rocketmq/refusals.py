"""A broker's refusals as classes, looked up by response code.

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

from offsetguard.model.errors import BrokerRefused
from offsetguard.sources.rocketmq.codes import ResponseCode


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
