"""The publishing job as a process of its own that has imported everything already: for tests that kill many of them."""

import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

_PRELOADED = ["offsetguard_spark.jobs", "offsetguard_expectations.checkpoint", "pyspark.sql.connect.session"]


@dataclass(frozen=True)
class Driver:
    """A running job; `lines` yields what it says until it ends."""

    process: BaseProcess
    _output: Connection

    def lines(self) -> Iterator[str]:
        """Yield its lines of stdout and stderr as they come."""
        with os.fdopen(os.dup(self._output.fileno()), encoding="utf-8") as output:
            for line in output:
                yield line.rstrip("\n")

    def kill(self) -> None:
        """End it at once, without any chance to tidy up."""
        self.process.kill()
        self.process.join()


@contextmanager
def running_job(environment: Mapping[str, str], arguments: Sequence[str]) -> Iterator[Driver]:
    """Start the real job; it is killed at the end of the block if it still runs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOADED)
    output, its_end = context.Pipe(duplex=False)
    process = context.Process(target=_run, args=(dict(environment), list(arguments), its_end))
    process.start()
    its_end.close()
    try:
        yield Driver(process, output)
    finally:
        process.kill()
        process.join()
        output.close()


def _run(environment: dict[str, str], arguments: list[str], output: Connection) -> None:
    os.environ.update(environment)
    for descriptor in (1, 2):
        os.dup2(output.fileno(), descriptor)
    output.close()
    from offsetguard_spark.jobs import publish  # noqa: PLC0415 - imported before the fork, if all went well

    sys.exit(publish(arguments))
