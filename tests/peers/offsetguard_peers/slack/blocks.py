"""What Slack checks in the blocks of a message: shapes, lengths, counts, unique block ids.

Source: https://docs.slack.dev/reference/block-kit and slack_sdk's models; the total of about 13,000 characters is
slackapi/bolt-js issue 2509. Covers the block types that a warning can consist of; anything else is refused here.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_BLOCKS = 50
MAX_TOTAL_CHARACTERS = 13_000
MAX_ID_CHARACTERS = 255
MAX_FIELDS = 10
MAX_CONTEXT_ELEMENTS = 10
MAX_ACTION_ELEMENTS = 25


@dataclass(frozen=True, slots=True)
class BlockProblem:
    """One fault, as Slack words it in `errors` and `response_metadata.messages`."""

    message: str
    pointer: str

    def __str__(self) -> str:
        return f"{self.message} [json-pointer:{self.pointer}]"


def block_problems(blocks: object) -> list[BlockProblem]:
    """List everything that Slack would call `invalid_blocks`."""
    if not isinstance(blocks, list):
        return [BlockProblem("must be an array", "/blocks")]
    found = []
    if len(blocks) > MAX_BLOCKS:
        found.append(BlockProblem(f"no more than {MAX_BLOCKS} items allowed", "/blocks"))
    seen_ids: set[str] = set()
    for index, block in enumerate(blocks):
        pointer = f"/blocks/{index}"
        found += list(_block(block, pointer))
        block_id = block.get("block_id") if isinstance(block, dict) else None
        if isinstance(block_id, str):
            if block_id in seen_ids:
                found.append(BlockProblem(f"`block_id` {block_id} already exists", pointer))
            seen_ids.add(block_id)
    return found


def total_characters(blocks: object) -> int:
    """Count the characters of all texts, wherever they are in the blocks."""
    if isinstance(blocks, dict):
        own = len(blocks["text"]) if isinstance(blocks.get("text"), str) else 0
        return own + sum(total_characters(value) for key, value in blocks.items() if not isinstance(value, str))
    if isinstance(blocks, list):
        return sum(total_characters(each) for each in blocks)
    return 0


def _block(block: object, pointer: str) -> Iterator[BlockProblem]:
    if not isinstance(block, dict):
        yield BlockProblem("must be an object", pointer)
        return
    rule = BLOCKS.get(str(block.get("type")))
    if rule is None:
        yield BlockProblem(f"unsupported type: {block.get('type')}", f"{pointer}/type")
        return
    allowed, check = rule
    yield from _additional(block, {"type", "block_id", *allowed}, pointer)
    if "block_id" in block:
        yield from _length(block["block_id"], MAX_ID_CHARACTERS, f"{pointer}/block_id")
    yield from check(block, pointer)


def _header(block: Mapping[str, Any], pointer: str) -> Iterator[BlockProblem]:
    yield from _text_object(block.get("text"), f"{pointer}/text", 150, types=("plain_text",))


def _section(block: Mapping[str, Any], pointer: str) -> Iterator[BlockProblem]:
    if "text" not in block and "fields" not in block:
        yield BlockProblem("missing required field: fields or text", pointer)
    if "text" in block:
        yield from _text_object(block["text"], f"{pointer}/text", 3000)
    if "fields" in block:
        yield from _items(block["fields"], MAX_FIELDS, f"{pointer}/fields", _field)
    if "accessory" in block:
        yield from _element(block["accessory"], f"{pointer}/accessory")


def _field(field: object, pointer: str) -> Iterator[BlockProblem]:
    yield from _text_object(field, pointer, 2000)


def _context(block: Mapping[str, Any], pointer: str) -> Iterator[BlockProblem]:
    yield from _items(block.get("elements"), MAX_CONTEXT_ELEMENTS, f"{pointer}/elements", _context_element)


def _context_element(element: object, pointer: str) -> Iterator[BlockProblem]:
    if isinstance(element, dict) and element.get("type") == "image":
        yield from _image(element, pointer)
    else:
        yield from _text_object(element, pointer, 3000)


def _actions(block: Mapping[str, Any], pointer: str) -> Iterator[BlockProblem]:
    yield from _items(block.get("elements"), MAX_ACTION_ELEMENTS, f"{pointer}/elements", _element)
    elements = block.get("elements")
    ids = [each.get("action_id") for each in elements if isinstance(each, dict)] if isinstance(elements, list) else []
    given = [each for each in ids if each is not None]
    if len(given) != len(set(given)):
        yield BlockProblem("`action_id` already exists", f"{pointer}/elements")


def _element(element: object, pointer: str) -> Iterator[BlockProblem]:
    if not isinstance(element, dict) or element.get("type") not in ("button", "image"):
        yield BlockProblem("unsupported element", pointer)
        return
    if element["type"] == "image":
        yield from _additional(element, {"type", "image_url", "alt_text"}, pointer)
        yield from _image(element, pointer)
        return
    yield from _additional(
        element, {"type", "text", "action_id", "url", "value", "style", "confirm", "accessibility_label"}, pointer
    )
    yield from _text_object(element.get("text"), f"{pointer}/text", 75, types=("plain_text",))
    for name, limit in (("action_id", MAX_ID_CHARACTERS), ("url", 3000), ("value", 2000), ("accessibility_label", 75)):
        if name in element:
            yield from _length(element[name], limit, f"{pointer}/{name}")
    if "url" in element and not str(element["url"]).startswith(("http://", "https://", "mailto:")):
        yield BlockProblem("must be a valid url", f"{pointer}/url")
    if element.get("style", "primary") not in ("primary", "danger"):
        yield BlockProblem("must be one of primary, danger", f"{pointer}/style")


def _image(block: Mapping[str, Any], pointer: str) -> Iterator[BlockProblem]:
    if not str(block.get("image_url", "")).startswith(("http://", "https://")):
        yield BlockProblem("missing required field: image_url", pointer)
    yield from _length(block.get("alt_text"), 2000, f"{pointer}/alt_text")


def _divider(block: Mapping[str, Any], pointer: str) -> Iterator[BlockProblem]:
    yield from ()


def _rich_text(block: Mapping[str, Any], pointer: str) -> Iterator[BlockProblem]:
    yield from _items(block.get("elements"), MAX_BLOCKS, f"{pointer}/elements", _rich_part)


def _rich_part(part: object, pointer: str) -> Iterator[BlockProblem]:
    if not isinstance(part, dict) or part.get("type") not in ("rich_text_section", "rich_text_preformatted"):
        yield BlockProblem("unsupported element", pointer)
        return
    yield from _additional(part, {"type", "elements", "border", "language"}, pointer)
    yield from _items(part.get("elements"), MAX_BLOCKS, f"{pointer}/elements", _rich_text_run)


def _rich_text_run(run: object, pointer: str) -> Iterator[BlockProblem]:
    if not isinstance(run, dict) or run.get("type") != "text":
        yield BlockProblem("unsupported element", pointer)
        return
    yield from _additional(run, {"type", "text", "style"}, pointer)
    yield from _length(run.get("text"), MAX_TOTAL_CHARACTERS, f"{pointer}/text")


BLOCKS: dict[str, tuple[set[str], Callable[[Mapping[str, Any], str], Iterator[BlockProblem]]]] = {
    "header": ({"text"}, _header),
    "section": ({"text", "fields", "accessory", "expand"}, _section),
    "context": ({"elements"}, _context),
    "actions": ({"elements"}, _actions),
    "divider": (set(), _divider),
    "rich_text": ({"elements"}, _rich_text),
    "image": ({"image_url", "alt_text", "title"}, _image),
}


def _text_object(
    text: object, pointer: str, limit: int, *, types: tuple[str, ...] = ("plain_text", "mrkdwn")
) -> Iterator[BlockProblem]:
    if not isinstance(text, dict):
        yield BlockProblem("missing required field: text", pointer)
        return
    kind = text.get("type")
    if kind not in types:
        yield BlockProblem(f"must be one of {', '.join(types)}", f"{pointer}/type")
    own = {"plain_text": {"emoji"}, "mrkdwn": {"verbatim"}}.get(str(kind), set())
    yield from _additional(text, {"type", "text", *own}, pointer)
    yield from _length(text.get("text"), limit, f"{pointer}/text")


def _items(
    items: object, limit: int, pointer: str, check: Callable[[object, str], Iterator[BlockProblem]]
) -> Iterator[BlockProblem]:
    if not isinstance(items, list) or not items:
        yield BlockProblem("no less than 1 items allowed", pointer)
        return
    if len(items) > limit:
        yield BlockProblem(f"no more than {limit} items allowed", pointer)
    for index, item in enumerate(items):
        yield from check(item, f"{pointer}/{index}")


def _length(text: object, limit: int, pointer: str) -> Iterator[BlockProblem]:
    if not isinstance(text, str):
        yield BlockProblem("must be a string", pointer)
    elif not text:
        yield BlockProblem("must be more than 0 characters", pointer)
    elif len(text) > limit:
        yield BlockProblem(f"must be less than {limit + 1} characters", pointer)


def _additional(thing: Mapping[str, Any], allowed: set[str], pointer: str) -> Iterator[BlockProblem]:
    for name in sorted(set(thing) - allowed):
        yield BlockProblem(f"invalid additional property: {name}", pointer)
