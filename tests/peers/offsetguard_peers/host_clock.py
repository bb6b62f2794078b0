"""The clock of one host, which may be wrong and may jump: of every process that is started in its environment.

A library of a few lines, compiled once, stands before libc and adds to the real time what a shared file says. It holds
for Python as for PostgreSQL; spans (the monotonic clock) pass as they do.
"""

import shutil
import subprocess
import tempfile
from datetime import timedelta
from functools import cache
from pathlib import Path

from offsetguard_peers.needs import fail_or_skip

_SOURCE = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile int64_t *ahead_s;

__attribute__((constructor)) static void open_clock(void) {
    int file = open(getenv("OFFSETGUARD_PEERS_CLOCK"), O_RDONLY);
    void *page = file < 0 ? MAP_FAILED : mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) abort();
    close(file);
    ahead_s = page;
}

int clock_gettime(clockid_t clock, struct timespec *now) {
    int failed = syscall(SYS_clock_gettime, clock, now);
    if (!failed && ahead_s && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) now->tv_sec += *ahead_s;
    return failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
    struct timespec exact;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &exact);
    now->tv_sec = exact.tv_sec;
    now->tv_usec = exact.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *now) {
    struct timespec exact;
    clock_gettime(CLOCK_REALTIME, &exact);
    if (now) *now = exact.tv_sec;
    return exact.tv_sec;
}
"""


class HostClock:
    """`environment`: of the processes that are on the host."""

    def __init__(self, ahead: timedelta = timedelta()) -> None:
        """Be so far ahead of the real time, or behind it; skips the test where there is no C compiler."""
        library = _library()
        self._file = Path(tempfile.mkdtemp(prefix="clock-", dir=library.parent)) / "ahead"
        self._file.parent.chmod(0o755)  # PostgreSQL runs as somebody else
        self.environment = {"LD_PRELOAD": str(library), "OFFSETGUARD_PEERS_CLOCK": str(self._file)}
        self.jump_to(ahead)

    def jump_to(self, ahead: timedelta) -> None:
        """Be so far ahead from now on, also for processes that run."""
        with self._file.open("r+b" if self._file.exists() else "wb") as file:
            file.write(int(ahead.total_seconds()).to_bytes(8, "little", signed=True))


@cache
def _library() -> Path:
    compiler = shutil.which("cc") or fail_or_skip("there is no C compiler: apt-get install gcc libc6-dev")
    folder = Path(tempfile.mkdtemp(prefix="og-clock-"))
    folder.chmod(0o755)
    library = folder / "host_clock.so"
    command = [compiler, "-shared", "-fPIC", "-O1", "-fno-builtin", "-xc", "-", "-o", str(library)]
    subprocess.run(command, input=_SOURCE, text=True, check=True)
    return library
