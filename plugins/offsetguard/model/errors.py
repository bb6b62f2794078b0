"""Every error that OffsetGuard raises, by blame and by whether a retry can help.

OffsetGuardError
 +-- ConfigError                 the user's file: names file, line, field
 +-- RocketMQError               asking again helps with the first three only
 |    +-- PeerUnreachable        nobody listens at the address
 |    +-- RequestTimedOut        connected, no answer in time
 |    +-- ConnectionLost         closed in mid-frame or before the answer
 |    +-- UndecodableResponse    bytes that are not the protocol, or a body that cannot be read (UndecodableBody)
 |    +-- NotRecorded            asked of a bundle or of state files that do not have it
 |    +-- BrokerRefused          an answer with a code other than 0; one subclass per code in `rocketmq.refusals`
 +-- BundleError                 a support bundle or a state file: names file and line
 +-- SnapshotError               a landed file: names file and column
 |    +-- IntervalHasPassed      nothing landed then, and nobody can look into the past
 +-- PublishError                facts that could not be audited or published
 +-- StoreError                  our database cannot be opened; the text never shows the password
 +-- SilenceError                a silence or an acknowledgement that cannot be meant so: says what is missing
 +-- UnknownName                 nothing is known of what is asked for: names what comes near
 +-- DeliveryError               a receiver did not accept; `permanent` and `retry_after_s` say what a retry would do
"""


class OffsetGuardError(Exception):
    """Base of all our errors; the text names the thing and says what to do."""


class ConfigError(OffsetGuardError):
    """The configuration cannot be used; the text starts with `file:line: field:`."""


class RocketMQError(OffsetGuardError):
    """A request to a name server or broker failed."""

    def __init__(self, address: str, message: str) -> None:
        """Name the peer (`host:port`) first: an operator starts there."""
        super().__init__(f"{address}: {message}")
        self.address = address


class PeerUnreachable(RocketMQError):
    """No connection could be opened."""


class RequestTimedOut(RocketMQError):
    """The peer did not answer within the time-out."""


class ConnectionLost(RocketMQError):
    """The peer closed the connection before it had answered."""


class UndecodableResponse(RocketMQError):
    """The peer sent bytes that are not RocketMQ's remoting protocol, or a body that is not what was asked for."""


class UndecodableBody(UndecodableResponse):
    """The answer came as it should; what is in it cannot be read."""


class NotRecorded(RocketMQError):
    """A bundle or a folder of state files was asked for what it does not hold; nothing is made up instead."""


class BrokerRefused(RocketMQError):
    """The peer answered with a code other than SUCCESS."""

    advice = ""  # what an operator should do; subclasses say it

    def __init__(self, address: str, code: int, remark: str | None) -> None:
        """Keep RocketMQ's own response code and remark; the text shows the start of a long one (Java stack traces)."""
        printable = "".join(char if char.isprintable() else " " for char in (remark or "no remark")[:1000])
        shown = " ".join(printable.split())[:300]
        super().__init__(address, f"refused with code {code}: {shown}" + (f"; {self.advice}" if self.advice else ""))
        self.code = code
        self.remark = remark


class BundleError(OffsetGuardError):
    """A support bundle or a folder of state files cannot be read or written; the text names file and line."""


class SnapshotError(OffsetGuardError):
    """A landed snapshot cannot be written or read; the text names file and column."""


class DamagedSnapshot(SnapshotError):
    """A file of a landed snapshot cannot be read."""

    def __init__(self, file: str, reason: str) -> None:
        """`file`: its path; `reason`: names the column, where it is one."""
        super().__init__(file, reason)
        self.file = file
        self.reason = reason

    def __str__(self) -> str:
        """Return both."""
        return f"{self.file}: {self.reason}"


class IntervalHasPassed(SnapshotError):
    """An interval that never landed is too old to be collected: there is nothing to do but to leave it out."""


class PublishError(OffsetGuardError):
    """Facts of an interval could not be audited or published; readers stay on the last good state."""


class StoreError(OffsetGuardError):
    """Our database cannot be opened or used; the text never shows a password."""


class SilenceError(OffsetGuardError):
    """A silence or an acknowledgement cannot be taken as it was given; the text says what is missing."""


class UnknownName(OffsetGuardError):
    """Nothing is known of what somebody asks for, neither now nor of the past that is kept."""

    def __init__(self, text: str) -> None:
        """`text`: may be one that can be said in the reader's language (`catalogue.Sentence`)."""
        super().__init__(text)
        self.text = text


class DeliveryError(OffsetGuardError):
    """A receiver did not accept a message."""

    def __init__(
        self, message: str, *, permanent: bool, retry_after_s: float | None = None, gone: bool = False
    ) -> None:
        """`permanent`: sending the same again cannot help. `retry_after_s`: the receiver's own wish, seconds.

        `gone`: it wants no message any more.
        """
        super().__init__(message)
        self.gone = gone
        self.permanent = permanent
        self.retry_after_s = retry_after_s
