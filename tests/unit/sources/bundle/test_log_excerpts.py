"""Excerpts hold the whole lines that were written while a bundle was recorded, through rotation and truncation."""

from pathlib import Path

import pytest

from offsetguard.config import LogSource
from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle.log_excerpts import LogExcerpts, LogFolder, find_log_folders, log_folders_of


class Logs:
    """A folder of logs and its excerpts."""

    def __init__(self, tmp_path: Path, before: bytes = b"old\n") -> None:
        self.folder = tmp_path / "logs"
        self.folder.mkdir()
        self.file = self.folder / "broker.log"
        self.file.write_bytes(before)
        self.bundle = tmp_path / "bundle"
        self.excerpts = LogExcerpts(self.bundle, [LogFolder(self.folder, "logs/broker-a-0")])
        self.excerpts.begin()

    def write(self, data: bytes, name: str = "broker.log") -> None:
        with (self.folder / name).open("ab") as opened:
            opened.write(data)

    def copied(self, name: str = "broker.log") -> bytes:
        self.excerpts.copy()
        file = self.bundle / "logs" / "broker-a-0" / name
        return file.read_bytes() if file.exists() else b""


def test_a_line_that_was_begun_before_is_left_out_and_an_unfinished_one_waits(tmp_path: Path) -> None:
    logs = Logs(tmp_path, before=b"old\nbegun ")
    logs.write(b"before\nnew\nunfini")
    assert logs.copied() == b"new\n"
    logs.write(b"shed\n")
    assert logs.copied() == b"new\nunfinished\n"


def test_a_rotated_log_is_read_to_its_end_and_its_successor_from_its_start(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(b"last of the old one\n")
    logs.file.rename(logs.folder / "broker.1.log.old")
    logs.write(b"first of the new one\n")
    assert logs.copied() == b"last of the old one\nfirst of the new one\n"


def test_a_truncated_log_is_copied_from_its_new_start_and_noted(tmp_path: Path) -> None:
    logs = Logs(tmp_path, before=b"a long old line\n")
    logs.file.write_bytes(b"new\n")
    assert logs.copied() == b"new\n"
    assert "was truncated" in logs.excerpts.notes[0]


def test_a_log_that_appears_later_is_copied_whole_and_other_files_are_not(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(b"locked\n", "lock.log")
    logs.write(b"secret\n", "notes.txt")
    assert logs.copied("lock.log") == b"locked\n"
    assert {path.name for path in logs.bundle.rglob("*.*")} == {"lock.log"}


def test_secrets_in_lines_are_left_out(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(b"extFields={AccessKey=me, Signature=abc=, topic=T1}\n")
    assert logs.copied() == b"extFields={AccessKey=***, Signature=***, topic=T1}\n"


def test_a_key_whose_end_is_not_written_yet_waits_and_one_that_never_ends_holds_nothing_up(tmp_path: Path) -> None:
    logs = Logs(tmp_path)
    logs.write(b"one\n-----BEGIN PRIVATE KEY-----\nMIIabc\n")
    assert logs.copied() == b"one\n"
    logs.write(b"MIIdef\n-----END PRIVATE KEY-----\ntwo\n")
    assert logs.copied() == b"one\n-----BEGIN PRIVATE KEY-----***\ntwo\n"
    logs.write(b"-----BEGIN PRIVATE KEY-----\n" + b"three\n" * 4_000)
    assert logs.copied().endswith(b"three\n"), "beyond what a key may be long"


LABELS = ["broker-a-0", "broker-a-1"]


@pytest.mark.parametrize(
    ("path", "name", "place"),
    [
        ("broker-a-1/logs/rocketmqlogs/broker.log", None, "logs/broker-a-1"),
        ("somewhere/broker.log", "broker-a-0", "logs/broker-a-0"),
        ("order-app/logs/rocketmq_client.log", None, "clients/order-app"),
        ("order-app/logs/rocketmq_client.log", "shop", "clients/shop"),
        ("somewhere/broker.log", "../..", "logs/name~"),
    ],
)
def test_a_folder_of_logs_is_known_by_its_path_or_name(tmp_path: Path, path: str, name: str | None, place: str) -> None:
    file = tmp_path / path
    file.parent.mkdir(parents=True)
    file.touch()
    (found,) = find_log_folders([(name, tmp_path)], LABELS)
    assert found.folder == file.parent
    assert found.place.partition("~")[0] == place.partition("~")[0]
    assert ".." not in found.place


def test_one_folder_may_hold_the_logs_of_all_brokers(tmp_path: Path) -> None:
    for label in LABELS:
        (tmp_path / label / "logs").mkdir(parents=True)
        (tmp_path / label / "logs" / "broker.log").touch()
    assert [one.place for one in find_log_folders([(None, tmp_path)], LABELS)] == [f"logs/{one}" for one in LABELS]


@pytest.mark.parametrize(
    ("file", "message"),
    [
        ("broker.log", r"whose logs are in .*\? write for example --logs broker-a-0="),
        ("notes.txt", r"holds no \*\.log"),
    ],
)
def test_a_folder_that_nothing_tells_of_says_what_to_write(tmp_path: Path, file: str, message: str) -> None:
    (tmp_path / file).touch()
    with pytest.raises(BundleError, match=message):
        find_log_folders([(None, tmp_path)], LABELS)


def test_log_sources_of_a_configuration_are_taken_as_they_are_declared(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name / "logs").mkdir(parents=True)
        (tmp_path / name / "logs" / "broker.log").write_bytes(b"old\n")
        (tmp_path / name / "logs" / "gc.log").write_bytes(b"old\n")
    sources = [
        LogSource(name="broker-a", files=[f"{tmp_path}/a/logs/broker*"], broker_name="broker-a", broker_id=1),
        LogSource(name="shop", files=[f"{tmp_path}/*/nothing/*.log", f"{tmp_path}/b/log*/*.log"]),
    ]
    folders = log_folders_of(sources)
    assert [(one.folder, one.place) for one in folders] == [
        (tmp_path / "a" / "logs", "logs/broker-a-1"),
        (tmp_path / "b" / "logs", "clients/shop"),
    ]
    excerpts = LogExcerpts(tmp_path / "bundle", folders)
    excerpts.begin()
    for file in tmp_path.glob("*/logs/*.log"):
        with file.open("ab") as opened:
            opened.write(b"new\n")
    excerpts.copy()
    assert sorted(excerpts.byte_counts) == [
        "clients/shop/broker.log",
        "clients/shop/gc.log",
        "logs/broker-a-1/broker.log",
    ]
