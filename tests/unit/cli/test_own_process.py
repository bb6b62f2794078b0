"""Loading pyarrow without NumPy and asyncio without OpenSSL, in a process that ends with its command."""

from __future__ import annotations

import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

WRITES_AND_READS = """
import sys
from offsetguard.cli.own_process import OwnProcess
OwnProcess().load_less_with_pyarrow()
import pyarrow as pa
import pyarrow.parquet as pq
assert sys.modules["numpy"] is None, "nothing that a command does loads it later"
file = pa.BufferOutputStream()  # a file of Python's needs the interpreter in a thread of Arrow's, also when it ends
numbers = pa.Array.from_buffers(pa.int64(), 2, [None, pa.py_buffer(b"\\x01" + bytes(15))])
pq.write_table(pa.Table.from_arrays([numbers], ["n"]), file)
assert pq.read_table(pa.BufferReader(file.getvalue())).to_pydict() == {"n": [1, 0]}
import pyarrow.compute as pc
assert pc.sum(numbers).as_py() == 1, "computing does without it"
"""

AFTER_NUMPY = """
import numpy
from offsetguard.cli.own_process import OwnProcess
OwnProcess().load_less_with_pyarrow()
import pyarrow as pa
assert pa.array(numpy.arange(3)).to_numpy().sum() == 3, "where NumPy is in use already, pyarrow knows it"
"""


ASYNCIO_WITHOUT_TLS = """
import sys
from offsetguard.cli.own_process import OwnProcess
OwnProcess().load_asyncio_without_tls()
assert "_ssl" not in sys.modules and "asyncio" in sys.modules
import asyncio

async def echoed():
    async def echo(reader, writer):
        writer.write(await reader.readline())
        writer.close()
    async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"plain\\n")
        return await reader.readline()

assert asyncio.run(echoed()) == b"plain\\n", "plain connections are what they were"
from offsetguard.rocketmq.tls import why_tls_failed
assert why_tls_failed(OSError("refused")) is None, "who looks for an error of TLS can load it"
"""

AFTER_ASYNCIO = """
import asyncio
from offsetguard.cli.own_process import OwnProcess
OwnProcess().load_asyncio_without_tls()
import asyncio.sslproto, ssl
assert asyncio.sslproto.ssl is ssl, "what is loaded already stays"
"""


def run(program: str) -> None:
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def test_pyarrow_writes_and_reads_files_without_numpy() -> None:
    run(WRITES_AND_READS)


def test_asyncio_opens_plain_connections_without_openssl() -> None:
    run(ASYNCIO_WITHOUT_TLS)


def test_asyncio_that_is_loaded_already_keeps_tls() -> None:
    run(AFTER_ASYNCIO)


def test_numpy_that_is_loaded_already_stays() -> None:
    run(AFTER_NUMPY)


@pytest.mark.parametrize(("tls", "first_byte"), [("", 0x00), ("tls: {}", 0x16)])
def test_a_cluster_with_tls_is_greeted_with_tls_and_any_other_in_plain(
    tmp_path: Path, tls: str, first_byte: int
) -> None:
    """A TLS record that shakes hands starts with 22, a frame of the remoting protocol with the length's high byte."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = tmp_path / "offsetguard.yml"
        config.write_text(
            f"clusters: {{main: {{name_servers: ['127.0.0.1:{listener.getsockname()[1]}']{tls and ', ' + tls}}}}}\n"
            "teams: {operators: {mail: [operators@example.com]}}\ndefault_team: operators\n"
        )
        command = [sys.executable, "-m", "offsetguard.cli.main", "collect", "--config", config, "--out", tmp_path]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as collecting:
            connection, _ = listener.accept()
            with connection:
                connection.settimeout(300)
                assert connection.recv(1)[0] == first_byte
            listener.close()
            assert collecting.wait(300) == 2, "nothing was seen"
