"""A process that is killed in the middle of its transaction leaves nothing, and blocks nobody."""

from __future__ import annotations

import subprocess
import sys

import pytest
from sqlalchemy import Engine, text

from offsetguard.store.database import open_database, reading, serialize, writing

# What the judge holds when it is killed: the cluster's lock and rows that were not committed
HALF_A_JUDGEMENT = """
import sys
from sqlalchemy import text
from offsetguard.store.database import connect, serialize, writing
with writing(connect(sys.argv[1])) as session:
    serialize(session, "judge demo")
    session.execute(text("INSERT INTO tally VALUES (1)"))
    print("written", flush=True)
    sys.stdin.read()
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_nothing_and_blocks_nobody(database_url: str) -> None:
    engine = open_database(database_url)
    with writing(engine) as session:
        session.execute(text("CREATE TABLE tally (number INTEGER)"))
    with subprocess.Popen(
        [sys.executable, "-c", HALF_A_JUDGEMENT, database_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"written\n"
        assert count(engine) == 0
        writer.kill()
    with writing(engine) as session:
        serialize(session, "judge demo")
        session.execute(text("INSERT INTO tally VALUES (2)"))
    assert count(engine) == 1
    engine.dispose()


def count(engine: Engine) -> int:
    with reading(engine) as session:
        found: int = session.execute(text("SELECT count(*) FROM tally")).scalar_one()
        return found
