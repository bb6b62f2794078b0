"""Whatever a dying broker leaves of a state file: it is read whole, or its .bak is, or the reason has a name."""

import gzip
import json
import os
import tracemalloc
from pathlib import Path

import pytest

from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle.replay import Damage
from offsetguard.sources.rocketmq import offset_table
from offsetguard.sources.state_files.config_file import read_state_file
from offsetguard.sources.state_files.folder import CONSUMER_OFFSETS, GROUPS, LMQ_OFFSETS, TOPICS, read_state_folder
from offsetguard_peers.cases.running import for_each

# As 4.9.8 and 5.3.3 write them.
OFFSETS_4 = b'{\n\t"offsetTable":{\n\t\t"orders@billing":{0:7,1:9\n\t\t},\n\t\t"pay@ledger":{0:3\n\t\t}\n\t}\n}'
OLDER_OFFSETS_4 = OFFSETS_4.replace(b"0:7", b"0:5")
OFFSETS_5 = (
    b'{\n\t"dataVersion":{\n\t\t"counter":6,\n\t\t"stateVersion":0,\n\t\t"timestamp":1795251250693\n\t},\n'
    b'\t"groupTopicMap":{"billing":["orders"]\n\t},\n\t"offsetTable":{\n\t\t"orders@billing":{0:7,1:9\n\t\t}\n\t}\n}'
)


def topics(*names: str, broker: str = "broker-a", cluster: str = "DefaultCluster") -> bytes:
    queues = {broker: 1, cluster: 16, "TBW102": 8, **dict.fromkeys(names, 2)}
    table = {
        name: {"topicName": name, "perm": 6 if name in names else 7, "readQueueNums": count, "writeQueueNums": count}
        for name, count in queues.items()
    }
    return json.dumps({"dataVersion": {"counter": 1}, "topicConfigTable": table}, indent="\t").encode()


GROUP_TABLE = json.dumps({"subscriptionGroupTable": {"billing": {"groupName": "billing"}}}, indent="\t").encode()


def read_offsets(folder: Path):
    reading = read_state_file(folder, CONSUMER_OFFSETS, offset_table.all_consumer_offsets)
    offsets = offset_table.all_consumer_offsets(reading.whole.text).offsets if reading.whole else None
    return reading, offsets and {pair: dict(queues) for pair, queues in offsets.items()}


@pytest.mark.parametrize("text", [OFFSETS_4, OFFSETS_5], ids=["4.x", "5.x"])
def test_a_whole_file_is_read_with_the_time_at_which_it_was_written(tmp_path: Path, text: bytes) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_bytes(text)
    os.utime(tmp_path / CONSUMER_OFFSETS, (1_795_000_000, 1_795_000_000))
    reading, offsets = read_offsets(tmp_path)
    assert offsets is not None
    assert offsets["orders", "billing"] == {0: 7, 1: 9}
    assert reading.problems == ()
    assert reading.whole is not None
    assert reading.whole.written_at.timestamp() == 1_795_000_000


@pytest.mark.parametrize("text", [OFFSETS_4, gzip.compress(OFFSETS_4)], ids=["plain", "packed"])
def test_a_small_file_takes_little_memory_however_large_one_may_be(tmp_path: Path, text: bytes) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_bytes(text)
    tracemalloc.start()
    try:
        read_offsets(tmp_path)
        assert tracemalloc.get_traced_memory()[1] < 1024 * 1024
    finally:
        tracemalloc.stop()


@for_each("end", range(len(OFFSETS_4)))
def test_a_file_torn_at_any_byte_gives_way_to_its_bak(tmp_path: Path, end: int) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_bytes(OFFSETS_4[:end])
    (tmp_path / f"{CONSUMER_OFFSETS}.bak").write_bytes(OLDER_OFFSETS_4)
    reading, offsets = read_offsets(tmp_path)
    assert offsets is not None
    assert offsets["orders", "billing"] == {0: 5, 1: 9}
    (problem,) = reading.problems
    assert problem.source == str(tmp_path / CONSUMER_OFFSETS)
    assert problem.reason.endswith(f"{CONSUMER_OFFSETS}.bak is used instead")
    assert problem.body == (OFFSETS_4[:end] if OFFSETS_4[:end].strip() else b"")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty"),
        (b" \n\t", "is empty"),
        (b"\0" * 4096, "holds nothing but 4096 zero bytes"),
        (b'{"offsetTable":[]}', "is torn or damaged"),
        (gzip.compress(OFFSETS_4, mtime=0)[:-9], "is compressed and cut off or damaged"),
        (b"\x1f\x8bgarbage", "is compressed and cut off or damaged"),
        (b'{"offsetTable":{"\xff\xff@g":{0:1}}}', "is neither UTF-8 nor GB18030"),
        (b"[" * 100_000, "is torn or damaged"),
    ],
)
def test_each_kind_of_damage_has_a_name(tmp_path: Path, content: bytes, reason: str) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_bytes(content)
    reading, _ = read_offsets(tmp_path)
    assert reading.whole is None
    assert reason in reading.problems[0].reason


def test_a_byte_order_mark_is_passed_over_as_fastjson_does(tmp_path: Path) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_bytes(b"\xef\xbb\xbf" + OFFSETS_4)
    reading, offsets = read_offsets(tmp_path)
    assert offsets
    assert [one.reason for one in reading.problems] == ["begins with a byte order mark: an editor wrote it"]


def test_a_missing_file_gives_way_to_its_bak_and_is_named(tmp_path: Path) -> None:
    (tmp_path / f"{CONSUMER_OFFSETS}.bak").write_bytes(OFFSETS_4)
    reading, offsets = read_offsets(tmp_path)
    assert offsets
    reason = f"is missing; {CONSUMER_OFFSETS}.bak is used instead"
    assert reading.problems == (Damage(str(tmp_path / CONSUMER_OFFSETS), reason),)


@pytest.mark.parametrize("name", [CONSUMER_OFFSETS, f"{CONSUMER_OFFSETS}.gz", f"{CONSUMER_OFFSETS}.bak.gz"])
def test_compressed_files_are_read_whatever_their_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(OFFSETS_4))
    _, offsets = read_offsets(tmp_path)
    assert offsets


def test_a_file_that_is_larger_than_the_limit_is_refused(tmp_path: Path) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_bytes(b" " * 1001)
    (tmp_path / f"{CONSUMER_OFFSETS}.gz").write_bytes(gzip.compress(b" " * 1001, mtime=0))
    reading = read_state_file(tmp_path, CONSUMER_OFFSETS, offset_table.all_consumer_offsets, max_bytes=1000)
    assert reading.whole is None
    plain, packed = (problem.reason for problem in reading.problems)
    assert "is larger than 1000 bytes;" in plain
    assert "is larger than 1000 bytes when unpacked" in packed


def test_a_pipe_or_folder_in_place_of_a_file_does_not_hold_us(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / CONSUMER_OFFSETS)
    (tmp_path / f"{CONSUMER_OFFSETS}.bak").mkdir()
    reading, _ = read_offsets(tmp_path)
    assert reading.whole is None
    assert len(reading.problems) == 2


def test_names_in_the_platforms_charset_are_read_and_said(tmp_path: Path) -> None:
    text = OFFSETS_4.decode().replace("billing", "账单").encode("gbk")
    (tmp_path / CONSUMER_OFFSETS).write_bytes(text)
    reading, offsets = read_offsets(tmp_path)
    assert offsets is not None
    assert ("orders", "账单") in offsets
    assert "is not UTF-8 from byte" in reading.problems[0].reason


def write_broker(folder: Path, *, offsets: bytes = OFFSETS_4, broker: str = "broker-a") -> Path:
    folder.mkdir(parents=True)
    (folder / CONSUMER_OFFSETS).write_bytes(offsets)
    (folder / TOPICS).write_bytes(topics("orders", broker=broker))
    (folder / GROUPS).write_bytes(GROUP_TABLE)
    return folder


def test_several_brokers_are_known_by_their_folders(tmp_path: Path) -> None:
    write_broker(tmp_path / "broker-a-0" / "store" / "config")
    write_broker(tmp_path / "broker-a-1" / "config")
    write_broker(tmp_path / "b-x-0")
    (tmp_path / "notes").mkdir()
    found = [(one.broker_name, one.broker_id) for one in read_state_folder(tmp_path)]
    assert found == [("b-x", 0), ("broker-a", 0), ("broker-a", 1)]


def test_a_single_config_folder_tells_its_broker_and_cluster_by_their_topics(tmp_path: Path) -> None:
    write_broker(tmp_path / "config", broker="rocket-7")
    (broker,) = read_state_folder(tmp_path / "config")
    assert (broker.broker_name, broker.broker_id, broker.own_cluster) == ("rocket-7", 0, "DefaultCluster")


def test_a_folder_without_state_files_says_what_to_name(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="holds no state files; name a broker's `config` folder"):
        read_state_folder(tmp_path)


def test_delay_offsets_are_only_looked_whether_they_can_be_read(tmp_path: Path) -> None:
    config = write_broker(tmp_path / "config")
    (config / "delayOffset.json").write_bytes(b'{"dataVersion":{"counter":1},"offsetTable":{3:1204,4:88}}')
    (broker,) = read_state_folder(tmp_path)
    assert broker.notes == []
    (config / "delayOffset.json").write_bytes(b"")
    (broker,) = read_state_folder(tmp_path)
    assert [one.reason for one in broker.notes] == ["is empty; nothing is left to be used instead"]


def test_a_broker_on_rocksdb_says_how_to_export(tmp_path: Path) -> None:
    config = write_broker(tmp_path / "config")
    (config / CONSUMER_OFFSETS).unlink()
    (config / "consumerOffsets").mkdir()
    (config / "consumerOffsets" / "CURRENT").write_text("MANIFEST-000001\n")
    (broker,) = read_state_folder(tmp_path)
    assert CONSUMER_OFFSETS not in broker.files
    assert "rocksDBConfigToJson" in broker.missing[CONSUMER_OFFSETS]


@pytest.mark.parametrize("name", ["metadata", "rdb"])
def test_one_rocksdb_for_all_settings_is_named_and_makes_older_files_stale(tmp_path: Path, name: str) -> None:
    config = write_broker(tmp_path / "config")
    (config / name).mkdir()
    (config / name / "CURRENT").write_text("MANIFEST-000001\n")
    os.utime(config / CONSUMER_OFFSETS, (1_795_000_000, 1_795_000_000))
    os.utime(config / name / "CURRENT", (1_795_003_600, 1_795_003_600))
    (broker,) = read_state_folder(tmp_path)
    assert f"is older than {config / name}, where the broker keeps" in broker.notes[-1].reason
    for path in config.glob("*.json"):
        path.unlink()
    (broker,) = read_state_folder(tmp_path)
    assert f"{config / name} is one RocksDB for all settings" in broker.missing[CONSUMER_OFFSETS]


@pytest.mark.parametrize(("age_s", "is_noted"), [(3_600, True), (-5, False)])
def test_an_export_that_is_older_than_its_rocksdb_is_noted(tmp_path: Path, age_s: int, is_noted: bool) -> None:
    config = write_broker(tmp_path / "config")
    (config / "consumerOffsets").mkdir()
    current = config / "consumerOffsets" / "CURRENT"
    current.write_text("MANIFEST-000001\n")
    os.utime(current, (1_795_000_000, 1_795_000_000))
    os.utime(config / CONSUMER_OFFSETS, (1_795_000_000 - age_s, 1_795_000_000 - age_s))
    (broker,) = read_state_folder(tmp_path)
    assert CONSUMER_OFFSETS in broker.files
    assert [note.reason.split(",")[0] for note in broker.notes] == (
        [f"is older than {config / 'consumerOffsets'}"] if is_noted else []
    )


@pytest.mark.parametrize(("lmq_age_s", "used"), [(-60, CONSUMER_OFFSETS), (60, LMQ_OFFSETS)])
def test_of_the_two_offset_files_the_one_written_last_counts(tmp_path: Path, lmq_age_s: int, used: str) -> None:
    """enableLmq switches the broker to another file; the old one stays behind."""
    config = write_broker(tmp_path / "config")
    (config / LMQ_OFFSETS).write_bytes(OLDER_OFFSETS_4)
    os.utime(config / CONSUMER_OFFSETS, (1_795_000_000, 1_795_000_000))
    os.utime(config / LMQ_OFFSETS, (1_795_000_000 + lmq_age_s, 1_795_000_000 + lmq_age_s))
    (broker,) = read_state_folder(tmp_path)
    assert broker.files[CONSUMER_OFFSETS].path.name == used
    assert [note.reason.split(":")[0] for note in broker.notes] == (
        [f"is older than {LMQ_OFFSETS}"] if used == LMQ_OFFSETS else []
    )


EDITED = [
    ('{"offsetTable":{ //why\n "orders@billing":{0:7,1:9} /* , { */ }}', {0: 7, 1: 9}),
    ('{"offsetTable":{"orders@billing":{"0":7,"1":"9",},}}', {0: 7, 1: 9}),
    ("{offsetTable:{'orders@billing':{0:7,1:'9'}}}", {0: 7, 1: 9}),
    ("{offsetTable:{orders@billing:{0:7,1:9,},},}", {0: 7, 1: 9}),
]


@for_each("text, queues", EDITED)
def test_a_file_that_was_edited_by_hand_is_read_as_fastjson_reads_it_and_named(
    tmp_path: Path, text: str, queues: dict[int, int]
) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_text(text)
    reading, offsets = read_offsets(tmp_path)
    assert offsets == {("orders", "billing"): queues}
    (problem,) = reading.problems
    assert "was edited by hand" in problem.reason


def test_what_only_looks_edited_in_a_name_stays_as_it_is(tmp_path: Path) -> None:
    name = "a//b/*c*/d'e,}"
    (tmp_path / CONSUMER_OFFSETS).write_text(json.dumps({"offsetTable": {f"{name}@billing": {"0": 7}}})[:-1] + ",}")
    _, offsets = read_offsets(tmp_path)
    assert offsets == {(name, "billing"): {0: 7}}


@pytest.mark.parametrize("text", ["/*" * 100_000, "'" * 100_001, '{"a":' * 60_000, "{0:'" * 50_000])
def test_no_text_holds_up_the_reader(tmp_path: Path, text: str) -> None:
    (tmp_path / CONSUMER_OFFSETS).write_text(text)
    assert read_offsets(tmp_path)[1] is None
