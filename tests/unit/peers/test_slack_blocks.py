"""The Slack simulation knows Slack's limits on blocks, and names what lies beyond them."""

from typing import Any

from offsetguard_peers.cases.running import for_each
from offsetguard_peers.slack.blocks import block_problems


def plain(text: str) -> dict[str, str]:
    return {"type": "plain_text", "text": text}


def markdown(text: str) -> dict[str, str]:
    return {"type": "mrkdwn", "text": text}


def section(text: str) -> dict[str, Any]:
    return {"type": "section", "text": markdown(text)}


def button(**changes: Any) -> dict[str, Any]:
    return {"type": "button", "text": plain("Open"), "url": "https://x.test", **changes}


WRONG = [
    ("must be an array", {"type": "divider"}),
    ("no more than 50 items allowed", [{"type": "divider"}] * 51),
    ("unsupported type: heading", [{"type": "heading", "text": plain("x")}]),
    ("must be an object", ["divider"]),
    ("must be less than 151 characters", [{"type": "header", "text": plain("x" * 151)}]),
    ("must be one of plain_text", [{"type": "header", "text": markdown("x")}]),
    ("must be more than 0 characters", [section("")]),
    ("must be less than 3001 characters", [section("x" * 3001)]),
    ("missing required field: fields or text", [{"type": "section"}]),
    ("no more than 10 items allowed", [{"type": "section", "fields": [markdown("x")] * 11}]),
    ("must be less than 2001 characters", [{"type": "section", "fields": [markdown("x" * 2001)]}]),
    ("no less than 1 items allowed", [{"type": "section", "fields": []}]),
    ("no more than 10 items allowed", [{"type": "context", "elements": [markdown("x")] * 11}]),
    ("no more than 25 items allowed", [{"type": "actions", "elements": [button()] * 26}]),
    ("must be less than 76 characters", [{"type": "actions", "elements": [button(text=plain("x" * 76))]}]),
    ("must be less than 3001 characters", [{"type": "actions", "elements": [button(url="https://" + "x" * 3000)]}]),
    ("must be a valid url", [{"type": "actions", "elements": [button(url="javascript:alert(1)")]}]),
    ("must be one of primary, danger", [{"type": "actions", "elements": [button(style="loud")]}]),
    ("`action_id` already exists", [{"type": "actions", "elements": [button(action_id="a"), button(action_id="a")]}]),
    ("`block_id` same already exists", [{**section("a"), "block_id": "same"}, {**section("b"), "block_id": "same"}]),
    ("must be less than 256 characters", [{**section("a"), "block_id": "b" * 256}]),
    ("invalid additional property: emoji", [{"type": "section", "text": {**markdown("a"), "emoji": True}}]),
    ("invalid additional property: colour", [{**section("a"), "colour": "red"}]),
    ("unsupported element", [{"type": "actions", "elements": [markdown("a")]}]),
    ("missing required field: image_url", [{"type": "image", "alt_text": "a"}]),
]


@for_each("problem, blocks", WRONG)
def test_blocks_beyond_a_limit_are_named_with_their_place(problem: str, blocks: Any) -> None:
    assert problem in [each.message for each in block_problems(blocks)]
