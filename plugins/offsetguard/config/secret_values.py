"""What looks like a secret, wherever it stands: one definition for the configuration, and for what bundles keep.

A name that smells of one hides its whole value, whatever that is: a text, quoted or not, a number, a list, an object.
Some values give themselves away without a name: passwords in addresses, tokens of Slack, keys in PEM. `true`, `false`,
`null` and an empty text are no secrets, and tell something.

Linear whatever stands there: what has no end goes to the end of the line, or of the document.
"""

import json
import re

LEFT_OUT = b"***"

_SMELLS = re.compile(
    "secret|passwor|passwd|passphrase|pwd|credential|signature|token|authorization|webhook|cookie|privatekey|accesskey"
    "|apikey|exporterheader|initauthenticationuser"  # the last two hold logins
)
_WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_LAST_WORDS = {"pass", "pw", "sk"}  # rocksdb.pass, keystorePass, aliyunSk; neither bypass nor desk
_MAY_SMELL = re.compile(
    rb"(?i)secret|pass|pw|credential|signature|token|authorization|webhook|cookie|key|header|authentication|sk\b|ak\b"
)
_GIVES_ITSELF_AWAY = re.compile(
    rb"(://[^\s/:@\"\\]{0,100}+:)[^\s/\"\\]{1,300}(?=@)"
    rb"|(https://hooks\.slack\.com/services/)[^\s\"\\]++"
    rb"|\b(?:xox[a-z]|xapp)-[\w\-]++"
    rb"|(-----BEGIN [A-Z0-9 ]{1,40}-----)[^\"\-]{0,16384}(?:-(?!----)[^\"\-]{0,16384}){0,99}"
    rb"(?:-----END [A-Z0-9 ]{1,40}-----)?"
)
_NAMED = re.compile(rb"(?<![\w.\-])([\w.\-]++)\\*[\"']?[ \t]{0,20}+(?::?=>?|:|>)[ \t]{0,20}+")
_NO_SECRET = re.compile(rb"(?i:true|false|null|none)(?![\w.\-])|\"\"|''|\*\*\*")
_TEXT_VALUE = re.compile(
    rb"\"[^\"\\\r\n]*(?:\\[^\r\n][^\"\\\r\n]*)*\"?"
    rb"|'[^'\\\r\n]*(?:\\[^\r\n][^'\\\r\n]*)*'?"
    rb"|\\+[\"'][^\"'\\\r\n]*(?:\\+[^\"'\\\r\n][^\"'\\\r\n]*)*(?:\\*[\"'])?"
    rb"|(?i:digest)[ \t][^\r\n]*+"
    # up to a blank, to a bracket or a quote that ends something, and to a comma before the next name
    rb"|(?i:(?:bearer|basic)[ \t]++)?"
    rb"(?:(?!\\*[\"'\]})]+(?:[\s,;:.]|\Z)|[,;](?:\s|\Z|\\*[\"']?[\w.\-]{1,60}\\*[\"']?[=:]))\S)+"
)
_IN_BRACKETS = re.compile(rb"[{\[\]}]|[\r\n]|\"[^\"\\\r\n]*(?:\\[^\r\n][^\"\\\r\n]*)*\"")
_JSON_TOKEN = re.compile(
    rb"(?P<name>\"[^\"\\]*(?:\\.[^\"\\]*)*\")\s*+:\s*+|(?P<text>\"[^\"\\]*(?:\\.[^\"\\]*)*\"?)|[{\[\]}]", re.DOTALL
)
_JSON_SCALAR = re.compile(rb"[^\s,{\[\]}\"]++")
_ADDRESSES = re.compile(rb"[\w.\-@%\[\]:/*;,]*:\d{1,5}[;,]?")
# Names below these are of topics, groups, clients and brokers: chosen, as everywhere in RocketMQ's JSON
_HOLDS_CHOSEN_NAMES = (b'Table"', b'Map"')


def smells(name: str) -> bool:
    """Whether a setting, a header or a field of this name holds a secret: `secretKey`, `X-Api-Key`, `keystorePass`."""
    if _SMELLS.search(re.sub("[^A-Za-z0-9]", "", name).lower()):
        return True
    words = [word.lower() for word in _WORD.findall(name)]
    return bool(words) and (words[-1] in _LAST_WORDS or (words[-1] == "ak" and len(words) > 1))


def gives_itself_away(value: str) -> bool:
    """Whether a value is a secret whatever its name: a password in an address, a token or webhook of Slack, a key."""
    return _GIVES_ITSELF_AWAY.search(value.encode("utf-8", "replace")) is not None


def text_without_secrets(text: bytes) -> bytes:
    """Return log lines, or any text, without the values of names that smell, and without what gives itself away."""
    text = _GIVES_ITSELF_AWAY.sub(_beginning, text)
    if not _MAY_SMELL.search(text) or _ADDRESSES.fullmatch(text):  # of hosts with such names
        return text
    kept, at, look = [], 0, 0
    while found := _NAMED.search(text, look):
        look = found.end()
        if smells(found[1].decode("latin-1")) and (end := _end_in_text(text, look)) > look:
            kept += [text[at:look], LEFT_OUT]
            at = look = end
    return b"".join((*kept, text[at:]))


def json_without_secrets(document: bytes) -> bytes:
    """Return a JSON document, or what RocketMQ takes for one, without the same; it stays as much JSON as it was."""
    document = _GIVES_ITSELF_AWAY.sub(_beginning, document)
    if not _MAY_SMELL.search(document):
        return document
    kept, at, look = [], 0, 0
    chosen, opens_chosen = [False], False
    while found := _JSON_TOKEN.search(document, look):
        look, instead = found.end(), None
        if name := found["name"]:
            opens_chosen = name.endswith(_HOLDS_CHOSEN_NAMES)
            if not chosen[-1] and smells(name.decode("latin-1")) and not _NO_SECRET.match(document, look):
                start, look, instead = look, _end_in_json(document, look), LEFT_OUT
        elif text := found["text"]:
            start, instead = found.start(), _text_in_json(text)
        elif found[0] in b"{[":
            chosen.append(opens_chosen and found[0] == b"{")
            opens_chosen = False
        elif len(chosen) > 1:
            chosen.pop()
        if instead is not None and look > start:
            kept += [document[at:start], b'"' + instead + b'"']
            at = look
    return b"".join((*kept, document[at:]))


def settings_without_secrets(body: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return lines of `name=value` without the same, and the names whose values are not whole any more."""
    lines = _GIVES_ITSELF_AWAY.sub(_beginning, body).split(b"\n")
    names: list[str] = []
    hides = False
    for number, line in enumerate(lines):
        name, equals, value = line.partition(b"=")
        if not (equals and re.fullmatch(rb"\s*[\w.\-]+\s*", name)):  # goes on with the value before
            lines[number] = LEFT_OUT if hides and line.strip() else line
            continue
        hides = bool(value.strip()) and smells(name.decode("latin-1")) and not _NO_SECRET.fullmatch(value.strip())
        kept = LEFT_OUT if hides else text_without_secrets(value)
        if kept != value:
            lines[number] = name + b"=" + kept
        if LEFT_OUT in kept:
            names.append(name.decode("utf-8", "replace").strip())
    return b"\n".join(lines), tuple(names)


def open_block(lines: bytes) -> int:
    """Return where a block of PEM begins that has not ended yet and may still do so; else the end of the lines."""
    start = lines.rfind(b"-----BEGIN ")
    return start if start >= max(0, len(lines) - 16_384) and b"-----END " not in lines[start:] else len(lines)


def _beginning(found: re.Match[bytes]) -> bytes:
    return (found[1] or found[2] or found[3] or b"") + LEFT_OUT


def _end_in_text(text: bytes, start: int) -> int:
    if _NO_SECRET.match(text, start):
        return start
    if text[start : start + 1] in (b"{", b"["):
        return _end_of_brackets(_IN_BRACKETS, text, start)
    found = _TEXT_VALUE.match(text, start)
    return found.end() if found else start


def _end_in_json(document: bytes, start: int) -> int:
    if document[start : start + 1] in (b"{", b"["):
        return _end_of_brackets(_JSON_TOKEN, document, start)
    found = _JSON_TOKEN.match(document, start) or _JSON_SCALAR.match(document, start)
    if found is None or found[0] in b"}]":
        return start
    return start + len(found.groupdict().get("name") or found[0])


def _end_of_brackets(tokens: re.Pattern[bytes], text: bytes, start: int) -> int:
    depth = 0
    for found in tokens.finditer(text, start):
        if found[0] in b"\r\n":
            return found.start()
        depth += (found[0] in b"{[") - (found[0] in b"}]")
        if depth == 0:
            return found.end()
    return len(text)


def _text_in_json(text: bytes) -> bytes | None:
    """Return what is kept of a text of JSON, without its quotes; None: all of it."""
    inner = text.removeprefix(b'"').removesuffix(b'"')
    kept = text_without_secrets(inner)
    if kept == inner:
        return None
    try:
        json.loads(b'"' + kept + b'"', strict=False)
    except ValueError:  # half of an escape went
        return LEFT_OUT
    return kept
