"""Addresses of Spark Connect servers, and what is said when nobody answers there."""

import socket
from concurrent.futures import ThreadPoolExecutor

import pytest

from offsetguard_spark.connect import TOKEN_VARIABLE, ConnectAddress, SparkServerUnusable, telling_line

TOKEN = {TOKEN_VARIABLE: "secret-token"}
ADDRESSES = {
    # address, environment -> address for PySpark, TLS
    ("sc://localhost", ""): ("sc://localhost:15002", False),
    ("sc://127.0.0.1:4", ""): ("sc://127.0.0.1:4", False),
    ("sc://127.0.0.1:4", "token"): ("sc://localhost:4", False),
    ("sc://[::1]:4", "token"): ("sc://localhost:4", False),
    ("sc://[::1]:4", ""): ("sc://[::1]:4", False),
    ("sc://127.0.0.1:4/;token=t", ""): ("sc://localhost:4/;token=t", False),
    ("sc://127.0.0.1/;use_ssl=True", "token"): ("sc://127.0.0.1:15002/;use_ssl=True", True),
    ("sc://spark.example.com:4/", "token"): ("sc://spark.example.com:4/", True),
    # somebody said that nobody listens in between: the header that Spark's server looks for, without TLS
    ("sc://spark:4/;use_ssl=false", "token"): (
        "sc://spark:4/;use_ssl=false;authorization=Bearer%20secret-token",
        False,
    ),
    ("sc://spark/;use_ssl=False;token=a%2Fb", ""): (
        "sc://spark:15002/;use_ssl=False;authorization=Bearer%20a%2Fb",
        False,
    ),
    ("sc://spark:4/;use_ssl=false", ""): ("sc://spark:4/;use_ssl=false", False),
    ("sc://spark.example.com:4/;user_id=me", ""): ("sc://spark.example.com:4/;user_id=me", False),
}


@pytest.mark.parametrize(("given", "token"), ADDRESSES)
def test_an_address_is_what_pyspark_makes_the_best_of(given: str, token: str) -> None:
    """A token goes in plain text to `localhost` only; PySpark knows this machine by no other name."""
    address = ConnectAddress.parse(given, TOKEN if token else {})
    assert (address.remote, address.tls) == ADDRESSES[given, token]


@pytest.mark.parametrize(
    "wrong", ["", "localhost", "spark://localhost:7077", "sc://", "sc://host:port", "sc://h:99999"]
)
def test_what_is_no_address_is_refused_without_showing_it(wrong: str) -> None:
    """Somebody may have put a token into it."""
    with pytest.raises(SparkServerUnusable, match="of the form sc://host:port"):
        ConnectAddress.parse(wrong, {})


def test_nobody_at_the_address_is_said_at_once() -> None:
    """PySpark alone asks again for ten minutes."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(SparkServerUnusable, match=rf"localhost:{port} does not answer .*spark-server start"):
            ConnectAddress.parse(f"sc://localhost:{port}/;token=t", {}).check()


def test_a_server_without_tls_is_not_sent_a_token_as_if_it_had_some() -> None:
    """The peer answers the greeting of TLS with something else."""
    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as pool:
        pool.submit(_answer_in_plain_text, listener)
        address = ConnectAddress.parse(f"sc://127.0.0.1:{listener.getsockname()[1]}/;use_ssl=true", {})
        with pytest.raises(SparkServerUnusable, match="does not speak TLS"):
            address.check()


SAID = {
    'x\n\tstatus = UNAUTHENTICATED\n\tdetails = "Invalid token"\n\tdebug = "no"': "Invalid token",
    "\n[TABLE_NOT_FOUND] no such table\n  at org.apache.spark": "[TABLE_NOT_FOUND] no such table",
    "": "",
}


@pytest.mark.parametrize("text", SAID)
def test_of_an_error_of_spark_that_line_is_shown_which_says_something(text: str) -> None:
    assert telling_line(text) == SAID[text]


def _answer_in_plain_text(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        connection.recv(4096)
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
