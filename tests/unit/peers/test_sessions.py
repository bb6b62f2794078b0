"""Whatever a peer started is found again, also in a process group of its own and after it ignored the polite signal."""

import subprocess
import sys

from offsetguard_peers.processes import session_members, stop_sessions
from offsetguard_peers.waiting import wait_until

STUBBORN_GRANDCHILD = """
import subprocess, sys, time
child = '''
import os, signal, time
os.setpgid(0, 0)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(99)
'''
process = subprocess.Popen([sys.executable, "-c", child])
time.sleep(99)
"""


def test_a_whole_session_ends() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", STUBBORN_GRANDCHILD], start_new_session=True, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        assert len(session_members({process.pid})) == 2
        stop_sessions({process.pid}, patience_s=0.3)
        assert session_members({process.pid}) == []


def test_a_guard_ends_sessions_when_their_owner_was_killed() -> None:
    """The owner has no chance to clean up; the guard sees its pipe close."""
    owner = "\n".join(
        [
            "import subprocess, time",
            "from offsetguard_peers.processes import SessionGuard",
            "guard, child = SessionGuard(), subprocess.Popen(['sleep', '99'], start_new_session=True)",
            "guard.add(child.pid)",
            "print(child.pid, flush=True)",
            "time.sleep(99)",
        ]
    )
    with subprocess.Popen([sys.executable, "-c", owner], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        session = int(process.stdout.readline())
        assert session_members({session}) == [session]
        process.kill()
    wait_until(lambda: not session_members({session}), lambda: f"the end of {session_members({session})}")
