"""Headers of the remoting protocol, JSON and compact, in both directions, and the signing of their fields.

Source: `RemotingCommand` and `RocketMQSerializable` (apache/rocketmq 4.9.8 and 5.3.3). Unknown fields are ignored, as
RocketMQ does. JSON: `{"code":..,"language":..,"version":..,"opaque":..,"flag":..,"remark":..,"extFields":{..}}`.
Compact, big-endian: int16 code | int8 language | int16 version | int32 opaque | int32 flag | int32 length + remark |
int32 length + ext, where ext repeats int16 length + name | int32 length + value.

Brokers that ask for a login (ACL of 4.x, remoting authentication of 5.x) want the values of all ext fields except
`Signature`, in the order of their names, then the body, as HMAC-SHA1, base64: `AclClientRPCHook`,
`AclUtils.combineRequestContent` / `AclSigner` (apache/rocketmq 4.9.8, 5.3.3).
"""

import base64
import hashlib
import hmac
import json
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

from offsetguard.model.rocketmq import as_written
from offsetguard.sources.rocketmq.codes import HEADER_VERSION, LanguageCode, SerializeType
from offsetguard.sources.rocketmq.fastjson import decode_object, decode_text
from offsetguard.sources.rocketmq.json_fields import MalformedBytes

RESPONSE_FLAG = 1
ONEWAY_FLAG = 2
MAX_COMPACT_CODE = 0x7FFF

_to_json = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_COMPACT_HEAD = struct.Struct(">hbhii")
# What nearly all answers of 5.x are, to compact requests too, as fastjson writes it: a tenth of the time of any JSON.
# (4.9.7 answers in the form of the request: only its NettyRemotingAbstract calls setSerializeTypeCurrentRPC.)
_PLAIN_ANSWER = re.compile(
    rb'\{"code":(0|[1-9][0-9]{0,9}+),"flag":(0|[1-9][0-9]{0,9}+),"language":"([A-Z]++)","opaque":(0|[1-9][0-9]{0,9}+),'
    rb'"serializeTypeCurrentRPC":"JSON","version":(0|[1-9][0-9]{0,9}+)\}'
)
_LANGUAGE_NUMBERS = {language.name: language.value for language in LanguageCode}
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class RemotingCommand:
    """A request or a response: header fields and raw body."""

    code: int
    opaque: int  # pairs an answer with its request
    flag: int = 0
    remark: str | None = None
    ext_fields: Mapping[str, str] = field(default_factory=dict)
    language: str = LanguageCode.PYTHON.name
    version: int = HEADER_VERSION
    body: bytes = b""

    @property
    def is_response(self) -> bool:
        """Whether it answers a request of ours."""
        return bool(self.flag & RESPONSE_FLAG)

    @property
    def is_oneway(self) -> bool:
        """Whether the sender wants no answer."""
        return bool(self.flag & ONEWAY_FLAG)


def encode_header(command: RemotingCommand, serialize_type: SerializeType = SerializeType.JSON) -> bytes:
    """Return the header's bytes; raises ValueError for a code that the compact form cannot carry."""
    return _encode_json(command) if serialize_type is SerializeType.JSON else _encode_compact(command)


def decode_header(serialize_type: int, header: bytes, body: bytes = b"") -> RemotingCommand:
    """Return the command that a header and its body make; raises MalformedBytes."""
    if serialize_type == SerializeType.JSON:
        return _decode_json(header, body)
    if serialize_type == SerializeType.ROCKETMQ:
        return _decode_compact(header, body)
    raise MalformedBytes(f"header: unknown serialize type {serialize_type}")


def _encode_json(command: RemotingCommand) -> bytes:
    document = {
        "code": int(command.code),
        "language": command.language,
        "version": command.version,
        "opaque": command.opaque,
        "flag": command.flag,
        "remark": command.remark,
        "extFields": dict(command.ext_fields),
    }
    return _to_json(document).encode()


def _decode_json(header: bytes, body: bytes) -> RemotingCommand:
    if plain := _PLAIN_ANSWER.fullmatch(header):
        code, flag, language, opaque, version = plain.groups()
        numbers = int(code), int(opaque), int(flag), int(version)
        if max(numbers) < 2**31:
            return RemotingCommand(
                numbers[0], numbers[1], numbers[2], language=language.decode(), version=numbers[3], body=body
            )
    document = decode_object(header)
    ext_fields = document.get("extFields") or {}
    if not isinstance(ext_fields, dict):
        raise MalformedBytes("header: extFields is not an object")
    remark = document.get("remark")
    return RemotingCommand(
        code=_integer(document, "code"),
        opaque=_integer(document, "opaque"),
        flag=_integer(document, "flag", default=0),
        remark=None if remark is None else str(remark),
        ext_fields={name: as_written(value) for name, value in ext_fields.items() if value is not None},
        language=str(document.get("language", LanguageCode.OTHER.name)),
        version=_integer(document, "version", default=0),
        body=body,
    )


def _integer(document: Mapping[str, object], name: str, default: int | None = None) -> int:
    value = document.get(name, default)
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**31) <= value < 2**31:
        raise MalformedBytes(f"header: {name} is not a 32-bit number")
    return value


def _encode_compact(command: RemotingCommand) -> bytes:
    if not 0 <= command.code <= MAX_COMPACT_CODE:
        raise ValueError(f"code {command.code} does not fit the compact header; send it as JSON")
    ext = b""
    for name, value in command.ext_fields.items():
        name_bytes, value_bytes = name.encode(), value.encode()
        ext += _INT16.pack(len(name_bytes)) + name_bytes + _INT32.pack(len(value_bytes)) + value_bytes
    remark = command.remark.encode() if command.remark else b""
    language = _LANGUAGE_NUMBERS[command.language]
    head = _COMPACT_HEAD.pack(command.code, language, command.version, command.opaque, command.flag)
    return head + _INT32.pack(len(remark)) + remark + _INT32.pack(len(ext)) + ext


def _decode_compact(header: bytes, body: bytes) -> RemotingCommand:
    try:
        code, language, version, opaque, flag = _COMPACT_HEAD.unpack_from(header)
        remark, position = _sized(header, _COMPACT_HEAD.size, _INT32)
        ext, _ = _sized(header, position, _INT32)
        ext_fields = _compact_ext_fields(ext)
    except struct.error as error:
        raise MalformedBytes(f"compact header: cut off after {len(header)} bytes") from error
    return RemotingCommand(
        code=code,
        opaque=opaque,
        flag=flag,
        remark=decode_text(remark) if remark else None,  # a length of 0 is RocketMQ's null
        ext_fields=ext_fields,
        language=LanguageCode(language).name if language in iter(LanguageCode) else LanguageCode.OTHER.name,
        version=version,
        body=body,
    )


def _compact_ext_fields(ext: bytes) -> dict[str, str]:
    ext_fields: dict[str, str] = {}
    position = 0
    while position < len(ext):
        name, position = _sized(ext, position, _INT16)
        value, position = _sized(ext, position, _INT32)
        ext_fields[decode_text(name)] = decode_text(value)
    return ext_fields


def _sized(data: bytes, position: int, length_format: struct.Struct) -> tuple[bytes, int]:
    """Return the bytes behind a length at `position`, and the position behind them."""
    (length,) = length_format.unpack_from(data, position)
    start = position + length_format.size
    if not 0 <= length <= len(data) - start:
        raise MalformedBytes(f"compact header: a length of {length} at byte {position} does not fit")
    return data[start : start + length], start + length


@dataclass(frozen=True, slots=True)
class Credentials:
    """A login; in 5.x the access key is the user name and the secret key the password. The secrets are not shown."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signed_ext_fields(ext_fields: Mapping[str, str], body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return the ext fields with AccessKey, SecurityToken (if there is one) and Signature added."""
    fields = {name: value for name, value in ext_fields.items() if name != "Signature"}
    fields["AccessKey"] = credentials.access_key
    if credentials.security_token:
        fields["SecurityToken"] = credentials.security_token
    content = "".join(fields[name] for name in sorted(fields)).encode() + body
    digest = hmac.new(credentials.secret_key.encode(), content, hashlib.sha1).digest()
    return {**fields, "Signature": base64.b64encode(digest).decode("ascii")}
