"""WeCom (WeChat Work): the robot of a group chat, in Markdown of at most 4,096 bytes.

It answers HTTP 200 to everything; `errcode` says what became of the message. It takes 20 messages a minute. People are
called within the text (`<@userid>`): `mentioned_list` belongs to messages without markup.

Source: https://developer.work.weixin.qq.com/document/path/99110 (messages, sizes, 20 a minute),
https://developer.work.weixin.qq.com/document/path/90313 (codes; copied in xen0n/go-workwx: errcodes/mod.go).
"""

from typing import Any, ClassVar

from offsetguard.deliver.channels.one_post import OUR_DEFECT, Refusal, Robot
from offsetguard.deliver.messages.robots import Letter, fitted, letter, markdown
from offsetguard.model.notification import Declared
from offsetguard.model.views import AnyView

CHANNEL = Declared(
    name="wecom",
    receivers="wecom",
    meaning="Airflow connections of WeCom robots; can only add messages",
    title="WeCom",
    title_zh="企业微信",
    note="a WeCom robot can only add messages: repeats and ends are new ones, and after a crash one may come twice",
    digests=True,
    mentions="user ids of those whom a WeCom message calls",
)

MOST_BYTES = 4_096  # of the content


class WeComRobot(Robot):
    """A robot; it signs nothing."""

    __slots__ = ()

    SERVICE: ClassVar = "WeCom"
    HOST: ClassVar = "qyapi.weixin.qq.com"
    PATH: ClassVar = "/cgi-bin/webhook/send?key="
    PER_MINUTE: ClassVar = 20
    CONNECTION_ADVICE: ClassVar = (
        "create one of type generic with the robot's address or key as password (wecom in the configuration names it)"
    )
    REFUSALS: ClassVar = {
        -1: Refusal("WeCom is busy", wait_s=30.0),
        45009: Refusal("too fast", wait_s=60.0),
        45033: Refusal("too many at once", wait_s=30.0),
        93000: Refusal("the key is wrong or the robot was removed; put the address of a new one into the connection"),
        93004: Refusal("the robot is stopped: start it again in the group's settings"),
        93008: Refusal("the robot is no longer in the group; put the address of a new one into the connection"),
        40008: OUR_DEFECT,
        40058: OUR_DEFECT,  # too long, or not as it has to be
        44004: OUR_DEFECT,  # empty
        45002: OUR_DEFECT,  # too long
    }

    @classmethod
    def said(cls, view: AnyView) -> dict[str, Any]:
        """Return what a message says."""
        content = fitted(letter(view, sentence=350), _content, lambda text: len(text.encode()) <= MOST_BYTES)
        return {"msgtype": "markdown", "markdown": {"content": content}}


def _content(whole: Letter) -> str:
    return markdown(whole, line_end="\n", mentions="<@{}>")
