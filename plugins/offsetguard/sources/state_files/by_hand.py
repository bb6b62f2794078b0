"""Text that somebody has edited by hand, as fastjson reads it and strict JSON does not.

Comments, commas before a closing bracket, single quotes, names without quotes, and offsets in quotes. A broker that
starts with such a file has its offsets. Two linear scans that walk over whole strings; nothing runs back.
Source: JSONLexerBase of fastjson 1 (Feature.AllowSingleQuotes, AllowUnQuotedFieldNames, skipComment); apache/rocketmq
4.x. Which of these fastjson2 accepts (5.x), was not tried.
"""

import re

_STRING = r'"(?>(?:[^"\\]+|\\.)*)(?:"|\Z)'
# atomic groups and not possessive ones: CPython's issue 106052
_FOREIGN = re.compile(
    rf"(?P<string>{_STRING})"
    r"|(?P<comment>//[^\n]*+|/\*(?>(?:[^*]+|\*(?!/))*)(?:\*/|\Z))"
    r"|'(?P<single>(?>(?:[^'\\]+|\\.)*))'"
    r"|(?P<name>[A-Za-z_$%][^\s\"',:{}\[\]/]*+)(?=\s*+:)",
    re.DOTALL,
)
_LOOSE = re.compile(
    rf'(?P<number>(?:"[0-9]++"|(?<=[{{,\s])[0-9]++)\s*+:\s*+"(?=-?[0-9]++"))(?P<value>-?[0-9]++)"'
    rf"|(?P<string>{_STRING})|(?P<comma>,(?=\s*+[}}\]]))",
    re.DOTALL,
)
_QUOTE = re.compile(r'\\.|"', re.DOTALL)


def as_strict(text: bytes) -> bytes:
    """Return UTF-8 text as strict as brokers write it; the same where nothing of it is loose."""
    quoted = _FOREIGN.sub(_quoted, text.decode())
    return _LOOSE.sub(_tight, quoted).encode()


def _quoted(match: re.Match[str]) -> str:
    if match.lastgroup == "string":
        return match[0]
    if match.lastgroup == "comment":
        return " "
    if match.lastgroup == "name":
        return f'"{match[0]}"'
    return f'"{_QUOTE.sub(_escaped, match["single"])}"'


def _escaped(match: re.Match[str]) -> str:
    return {'"': '\\"', "\\'": "'"}.get(match[0], match[0])


def _tight(match: re.Match[str]) -> str:
    if match.lastgroup == "value":
        return match["number"][:-1] + match["value"]
    return match[0] if match.lastgroup == "string" else ""
