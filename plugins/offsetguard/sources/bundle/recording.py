"""Writes a bundle as a cluster is asked: every exchange as it comes, refusals and time-outs too, passed on unchanged.

A body's file is written first, then its line, so that a kill leaves a usable bundle. Secrets are kept out: passwords
and keys that brokers tell in their settings, and that logs repeat. GET_BROKER_CONFIG answers with every line of
broker.conf, and 5.x puts logins there (`initAuthenticationUser`, `innerClientAuthenticationCredentials`, passwords of
TLS keys). Names of settings stay, values do not. Request fields of a login (AccessKey, Signature, SecurityToken) never
reach a bundle: the recorder sees requests before they are signed, and leaves them out if they are there all the same.
"""

import asyncio
import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Self

from offsetguard.config.secret_values import json_without_secrets, settings_without_secrets, text_without_secrets
from offsetguard.config.workspace import replace_text, why_unwritten
from offsetguard.model.errors import BundleError, RocketMQError
from offsetguard.sources.bundle import layout
from offsetguard.sources.rocketmq.client import RocketMQClient
from offsetguard.sources.rocketmq.codes import RequestCode
from offsetguard.sources.rocketmq.header import RemotingCommand
from offsetguard.sources.rocketmq.json_fields import MalformedBytes
from offsetguard.sources.rocketmq.requests import AnswerT, Request
from offsetguard.sources.rocketmq.routes import cluster_info
from offsetguard.sources.rocketmq.transport import ExchangeTransport

_LOGIN_FIELDS = frozenset({"AccessKey", "Signature", "SecurityToken"})


def without_secrets(code: int, body: bytes) -> tuple[bytes, tuple[str, ...]]:
    """Return a response body to be kept, and the names of the settings whose values were left out of it.

    A body that is no list of settings stays JSON, if it was.
    """
    if code == RequestCode.GET_BROKER_CONFIG:
        return settings_without_secrets(body)
    return json_without_secrets(body), ()


def fields_without_login(ext_fields: Mapping[str, str]) -> dict[str, str]:
    """Return request fields without those of a login."""
    return {name: value for name, value in ext_fields.items() if name not in _LOGIN_FIELDS}


def _said(text: str) -> str:
    return text_without_secrets(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")


_CODE_NAMES = {int(code): code.name for code in RequestCode}
_FILE_NAME_LABELS = ("consumerGroup", "group", "topic", "clientId", "statsKey")


class BundleWriter:
    """One bundle being written; use as `with BundleWriter(folder, meta) as bundle`."""

    def __init__(self, folder: Path, meta: layout.Meta) -> None:
        """Make the folder; raises BundleError when it exists and is not empty, or cannot be made."""
        self.folder = folder
        self.exchange_count = 0
        self.byte_count = 0
        self._meta = meta
        self._files: dict[bytes, str] = {}  # digest of a body -> its file
        try:
            is_taken = folder.exists() and (not folder.is_dir() or any(folder.iterdir()))
            if not is_taken:
                (folder / layout.BODIES).mkdir(parents=True)
                self._index = (folder / layout.INDEX).open("a", encoding="utf-8")
        except OSError as error:
            raise _cannot_write(folder, error) from error
        if is_taken:
            raise BundleError(f"{folder}: exists and is not an empty folder; name a new one for the bundle")
        try:
            self._write_meta()
        except BundleError:  # nothing was recorded: the next one may have the same name
            self._index.close()
            (folder / layout.INDEX).unlink()
            (folder / layout.BODIES).rmdir()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._index.close()

    def begin_round(self, started_ms: int) -> None:
        """Note that a collection round begins: replays go from one to the next."""
        self._meta = self._meta.model_copy(update={"rounds_ms": (*self._meta.rounds_ms, started_ms)})
        self._write_meta()

    def end_round(self) -> None:
        """Note that the round came to its end: a replay does without one that was cut off."""
        self._meta = self._meta.model_copy(update={"rounds_ended": len(self._meta.rounds_ms)})
        self._write_meta()

    def note(self, text: str) -> None:
        """Keep a remark about the recording, for example a log that could not be read."""
        self._meta = self._meta.model_copy(update={"notes": (*self._meta.notes, text)})
        self._write_meta()

    def add_response(self, exchange: layout.Exchange, response: RemotingCommand) -> None:
        """Write one response: header and body."""
        body, redacted = without_secrets(exchange.code, response.body)
        header = {
            "code": response.code,
            "flag": response.flag,
            "language": response.language,
            "version": response.version,
            "opaque": response.opaque,
            **({"remark": _said(response.remark)} if response.remark is not None else {}),
            **({"extFields": fields_without_login(response.ext_fields)} if response.ext_fields else {}),
        }
        file = self._keep(exchange, body) if body else None
        self._append(replace(exchange, file=file, header=header), redacted)

    def add_failure(self, exchange: layout.Exchange, kind: str, message: str) -> None:
        """Write that no response came, and why."""
        self._append(replace(exchange, error=(kind, _said(message))), ())

    def _keep(self, exchange: layout.Exchange, body: bytes) -> str:
        digest = hashlib.sha256(body).digest()
        file = self._files.get(digest)
        if file is None:
            file = self._files[digest] = self._file_name(exchange)
            try:
                (self.folder / layout.BODIES / file).write_bytes(body)
            except OSError as error:
                (self.folder / layout.BODIES / file).unlink(missing_ok=True)  # half of it, or nothing
                raise _cannot_write(self.folder, error) from error
            self.byte_count += len(body)
        return file

    def _file_name(self, exchange: layout.Exchange) -> str:
        name = _CODE_NAMES.get(exchange.code, "REQUEST")
        labels = [layout.safe_name(exchange.ext[field]) for field in _FILE_NAME_LABELS if field in exchange.ext]
        suffix = "bin" if exchange.code == RequestCode.PULL_MESSAGE else "json"
        label = f".{layout.safe_name('.'.join(labels))}" if labels else ""
        where = layout.safe_name(exchange.broker)
        return f"{exchange.code}_{name}{label}_{where}_{exchange.t_ms}_{len(self._files) + 1}.{suffix}"

    def _append(self, exchange: layout.Exchange, redacted: tuple[str, ...]) -> None:
        exchange = replace(exchange, ext=fields_without_login(exchange.ext))
        line = layout.index_line(exchange, redacted) + "\n"
        try:
            self._index.write(line)
            self._index.flush()
        except OSError as error:
            raise _cannot_write(self.folder, error) from error
        self.exchange_count += 1
        self.byte_count += len(line)

    def _write_meta(self) -> None:
        """Replace meta.json at once: a kill leaves the old or the new one."""
        try:
            replace_text(self.folder / layout.META, self._meta.model_dump_json(exclude_none=True) + "\n")
        except OSError as error:
            raise _cannot_write(self.folder, error) from error


def _cannot_write(folder: Path, error: OSError) -> BundleError:
    return BundleError(f"the bundle {why_unwritten(folder, error)}")


class RecordingTransport(ExchangeTransport):
    """Wraps a client; brokers are written down under the names that the name server gives them."""

    def __init__(
        self,
        client: RocketMQClient,
        bundle: BundleWriter,
        name_servers: Collection[str],
        address_map: Mapping[str, str] | None = None,
    ) -> None:
        """`address_map`: listed by the name server -> asked, as in the configuration."""
        self._client = client
        self._bundle = bundle
        self._name_servers = name_servers
        self._address_map = address_map or {}
        self._labels: dict[str, str] = {}  # address that is asked -> "<broker name>-<broker id>"

    def now(self, address: str | None = None) -> datetime:
        """As the client's."""
        return self._client.now(address)

    @property
    def labels(self) -> Mapping[str, str]:
        """Asked address -> "<broker name>-<broker id>", as far as a name server has listed them."""
        return self._labels

    async def exchange(self, address: str, request: Request[AnswerT]) -> RemotingCommand:
        """Ask, write down what came of it, and return or raise the same."""
        try:
            response = await self._client.exchange(address, request)
        except RocketMQError as error:
            message = str(error).removeprefix(f"{error.address}: ")  # the replay's error names the address again
            self._bundle.add_failure(self._line(address, request), type(error).__name__, message)
            raise
        self._bundle.add_response(self._line(address, request), response)
        if request.code == RequestCode.GET_BROKER_CLUSTER_INFO:
            self._learn_labels(response)
        return response

    async def call_many(self, address: str, requests: Sequence[Request[AnswerT]]) -> list[AnswerT | RocketMQError]:
        """Ask one peer many things at once; each answer is written down when it comes."""

        async def outcome(request: Request[AnswerT]) -> AnswerT | RocketMQError:
            return await self.outcome(address, request)

        return list(await asyncio.gather(*map(outcome, requests)))

    def _line(self, address: str, request: Request[AnswerT]) -> layout.Exchange:
        return layout.Exchange(
            line=self._bundle.exchange_count + 1,
            t_ms=round(self.now(address).timestamp() * 1000),
            broker=layout.NAME_SERVER
            if address in self._name_servers
            else self._labels.get(address) or layout.other_peer(address),
            code=int(request.code),
            ext=request.ext_fields(),
            file=None,
            header=None,
        )

    def _learn_labels(self, response: RemotingCommand) -> None:
        try:
            labels = cluster_info(response.body).labels()
        except MalformedBytes:
            return  # whoever asked gets the error; the body is kept
        self._labels |= {self._address_map.get(address, address): label for address, label in labels.items()}
