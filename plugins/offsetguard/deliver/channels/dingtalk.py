"""DingTalk: the robot of a group chat, in Markdown, signed where it wants that.

It answers HTTP 200 to everything; `errcode` says what became of the message. Who sends more than 20 messages a minute
is refused for ten minutes. `msgUuid` is the same on every try of a message, so that it can leave out a repeat.

Source: https://help.dingtalk.io/open/development/custom-robots-send-group-messages (`msgUuid`, 20 a minute, then ten
minutes of refusals; the same in Chinese: https://open.dingtalk.com/document/orgapp/custom-robots-send-group-messages),
https://open.dingtalk.com/document/orgapp/customize-robot-security-settings (signature). Of each code: beside it.
"""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote_plus

from offsetguard.deliver.channels.one_post import CLOCK, OUR_DEFECT, Refusal, Robot, as_json, signature
from offsetguard.deliver.messages.robots import Letter, fitted, letter, markdown
from offsetguard.model.notification import Declared
from offsetguard.model.views import AnyView

CHANNEL = Declared(
    name="dingtalk",
    receivers="dingtalk",
    meaning="Airflow connections of DingTalk robots; can only add messages",
    title="DingTalk",
    title_zh="钉钉",
    note="a DingTalk robot can only add messages: repeats and ends are new ones, and after a crash one may come twice",
    digests=True,
    mentions="mobile numbers of those whom a DingTalk message calls",
)

MOST_BYTES = 20_000  # of the document
_KEY_BYTES = 100  # its key stands in it
BLOCKED_S = 600.0
TOO_FAST = 130101
_MISSING = 40035
_NEW_ROBOT = "put the address of a robot that works into the connection"
_NO_TOKEN = f"there is no such token; {_NEW_ROBOT}"
_SECURITY = {  # of code 310000, by a part of its text
    "keyword": Refusal("the robot wants a keyword: let it take OffsetGuard, which stands in each message"),
    "timestamp": Refusal(CLOCK),
    "sign": Refusal("the connection's extra `secret` is not the robot's"),
    "whitelist": Refusal("the robot does not take messages from this host's address: add it to the robot's settings"),
}


class DingTalkRobot(Robot):
    """A robot; `secret`: SEC... of its signature."""

    __slots__ = ()

    SERVICE: ClassVar = "DingTalk"
    HOST: ClassVar = "oapi.dingtalk.com"
    PATH: ClassVar = "/robot/send?access_token="
    PER_MINUTE: ClassVar = 20
    KEY: ClassVar = "msgUuid"
    SLOWS_S: ClassVar = BLOCKED_S
    CONNECTION_ADVICE: ClassVar = (
        'create one of type generic with the robot\'s address as password and, where it signs, {"secret": "SEC..."} as '
        "extra (dingtalk in the configuration names it)"
    )
    REFUSALS: ClassVar = {
        # of the robot, as its reference has them (copied in XiHanFun/XiHan.Framework: .../DingTalkResultErrCodeEnum.cs)
        310000: Refusal("the robot's security settings do not let it in"),
        400013: Refusal(f"the group was disbanded; {_NEW_ROBOT}"),
        400101: Refusal(_NO_TOKEN),
        400102: Refusal("the robot is stopped: start it again in the group's settings"),
        400105: OUR_DEFECT,  # the type of the message
        400106: Refusal(f"there is no such robot; {_NEW_ROBOT}"),
        410100: Refusal("too fast", wait_s=BLOCKED_S),
        430101: Refusal("DingTalk calls a link in it unsafe: see delivery.page_url and console_url", permanent=True),
        430102: Refusal("DingTalk does not like its text", permanent=True),
        430104: Refusal("DingTalk does not like its content", permanent=True),
        # of all of DingTalk: https://open.dingtalk.com/document/orgapp/server-api-error-codes-1
        -1: Refusal("DingTalk is busy", wait_s=30.0),
        88: Refusal("the robot has no right to post: see its settings"),
        _MISSING: OUR_DEFECT,  # a parameter is missing
        43004: OUR_DEFECT,  # Content-Type
        # in no reference of DingTalk, but answered to other senders: https://help.aliyun.com/zh/sls/error-codes
        # (130101, 300001), https://blog.csdn.net/jialiuyang/article/details/118615052 (blocked: `status` 1111,
        # `punish`), https://developer.aliyun.com/ask/595588 (90030), timonwong/prometheus-webhook-dingtalk#226
        # (300005) and #30 (460101), cryozerolabs/n8n-nodes-dingtalk#10 (400402); 660026, "sending too many messages per
        # minute", by senders who asked it in September 2026
        TOO_FAST: Refusal("too fast", wait_s=BLOCKED_S),
        660026: Refusal("too fast", wait_s=BLOCKED_S),
        300001: Refusal(_NO_TOKEN),
        300005: Refusal(_NO_TOKEN),
        90030: Refusal("the organisation's robots may post no more for now: their calls of the month are used up"),
        400402: OUR_DEFECT,  # no title
        460101: OUR_DEFECT,  # too long
    }

    @classmethod
    def said(cls, view: AnyView) -> dict[str, Any]:
        """Return what a message says."""
        whole = letter(view, sentence=1_500)
        return fitted(whole, _document, lambda document: len(as_json(document)) <= MOST_BYTES - _KEY_BYTES)

    def signed(self, said: dict[str, Any], at_s: float) -> tuple[str, dict[str, Any]]:
        """Sign the address."""
        if self.secret is None:
            return self.url, said
        timestamp = round(at_s * 1_000)
        sign = signature(self.secret.encode(), f"{timestamp}\n{self.secret}".encode())
        return f"{self.url}&timestamp={timestamp}&sign={quote_plus(sign)}", said

    @classmethod
    def code_of(cls, answer: Mapping[str, Any]) -> object:
        """Return the code; who is blocked may be answered without one."""
        return TOO_FAST if answer.get("punish") == "deny" else answer.get(cls.CODE)

    @classmethod
    def closer(cls, code: int, text: str) -> Refusal:
        """Tell apart what 310000 stands for, and a connection without a token from what we leave out."""
        if code == _MISSING and "access_token" in text:
            return Refusal(_NO_TOKEN)
        refusal = super().closer(code, text)
        if refusal is not cls.REFUSALS[310000]:
            return refusal
        return next((meant for part, meant in _SECURITY.items() if part in text.lower()), refusal)


def _document(whole: Letter) -> dict[str, Any]:
    text = markdown(whole, line_end="\n\n", mentions="@{}")
    return {
        "msgtype": "markdown",
        "markdown": {"title": whole.title, "text": text},
        "at": {"atMobiles": list(whole.mentions), "isAtAll": False},
    }
