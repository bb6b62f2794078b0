"""A folder of state files: which brokers are in it, and what each of their files says.

Taken are a broker's `config` folder, its store (with `config`, and `consumequeue` and `commitlog` for min and max
offsets), or a folder of several of either, each named `<broker name>-<broker id>`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from offsetguard.model.errors import BundleError
from offsetguard.sources.bundle.layout import broker_of
from offsetguard.sources.bundle.replay import Damage
from offsetguard.sources.rocketmq import brokers, fastjson, offset_table
from offsetguard.sources.rocketmq.json_fields import object_field
from offsetguard.sources.state_files.config_file import Reading, StateFile, read_state_file

CONSUMER_OFFSETS, TOPICS, GROUPS = "consumerOffset.json", "topics.json", "subscriptionGroup.json"
LMQ_OFFSETS = "lmqConsumerOffset.json"
DELAY_OFFSETS = "delayOffset.json"  # how far each delay level is; a broker may not start with a broken one (#1498)
ROCKSDB_FOLDERS = {CONSUMER_OFFSETS: "consumerOffsets", TOPICS: "topics", GROUPS: "subscriptionGroups"}
# one RocksDB for all of them: useSingleRocksDBForAllConfigs (apache/rocketmq#9774), configManagerVersion=v2 (#8856)
SHARED_ROCKSDB_FOLDERS = ("metadata", "rdb")

_DECODERS: dict[str, Callable[[bytes], object]] = {
    CONSUMER_OFFSETS: offset_table.all_consumer_offsets,
    LMQ_OFFSETS: offset_table.all_consumer_offsets,
    TOPICS: brokers.topic_config_table,
    GROUPS: brokers.subscription_group_table,
    DELAY_OFFSETS: lambda text: object_field(fastjson.decode_object(text), "offsetTable"),
}
_INHERIT = 1  # PermName.PERM_INHERIT: a broker's own topics have it
_TEMPLATE_TOPIC, _SYSTEM_PREFIX = "TBW102", "rmq_sys_"
MAX_BROKERS = 1_000
EXPORT_TAKES_S = 60.0  # opening RocksDB for an export writes to its folder too


@dataclass(slots=True)
class BrokerFiles:
    """One broker's files."""

    broker_name: str
    broker_id: int
    config: Path
    store: Path | None  # None: only the config folder is there
    files: dict[str, StateFile] = field(default_factory=dict)  # name -> the whole one
    missing: dict[str, str] = field(default_factory=dict)  # name -> why there is none
    notes: list[Damage] = field(default_factory=list)

    def note(self, damage: Damage) -> None:
        """Keep what is wrong with a file of this broker."""
        self.notes.append(replace(damage, broker_name=self.broker_name, broker_id=self.broker_id))

    @property
    def own_cluster(self) -> str | None:
        """The name of its RocketMQ cluster, as topics.json tells it; None = unclear."""
        names = [name for name in _own_topics(self.files.get(TOPICS)) if name != self.broker_name]
        return names[0] if len(names) == 1 else None


def read_state_folder(folder: Path) -> list[BrokerFiles]:
    """Read every broker's files below a folder; raises BundleError when there is none, or the folder cannot be read."""
    try:
        brokers = _find(folder)
        for broker in brokers:
            _read(broker)
    except OSError as error:
        raise BundleError(f"{folder}: cannot be read: {error.strerror or error}") from error
    if not brokers:
        raise BundleError(
            f"{folder}: holds no state files; name a broker's `config` folder, its store, or a folder with one of "
            "them for each broker, named <broker name>-<broker id>, for example broker-a-0"
        )
    return brokers


def _find(folder: Path) -> list[BrokerFiles]:
    if not folder.is_dir():
        raise BundleError(f"{folder}: is not a folder")
    config = _config_folder(folder)
    if config is not None:
        name, broker_id = broker_of(folder.name) or (_name_from_topics(config) or folder.resolve().name, 0)
        return [_broker(name, broker_id, config)]
    found: list[BrokerFiles] = []
    for path in sorted(path for path in folder.iterdir() if path.is_dir())[:MAX_BROKERS]:
        label, config = broker_of(path.name), _config_folder(path)
        if label is not None and config is not None:
            found.append(_broker(*label, config))
    return found


def _broker(name: str, broker_id: int, config: Path) -> BrokerFiles:
    store = config.parent if (config.parent / "consumequeue").is_dir() and config.name == "config" else None
    return BrokerFiles(name, broker_id, config, store)


def _config_folder(folder: Path) -> Path | None:
    """Return the folder itself, its `config` or its `store/config`, whichever holds state files."""
    for candidate in (folder, folder / "config", folder / "store" / "config"):
        if candidate.is_dir() and any(_is_state_file(path) for path in candidate.iterdir()):
            return candidate
    return None


def _is_state_file(path: Path) -> bool:
    return (
        path.name.startswith((CONSUMER_OFFSETS, TOPICS, GROUPS, LMQ_OFFSETS))
        or (path.name in ROCKSDB_FOLDERS.values() and path.is_dir())
        or (path.name in SHARED_ROCKSDB_FOLDERS and (path / "CURRENT").is_file())
    )


def _name_from_topics(config: Path) -> str | None:
    """Return the broker's name as its own topic tells it: of those that no user made, the one with one queue."""
    reading = read_state_file(config, TOPICS, brokers.topic_config_table)
    own = [name for name, queues in _own_topics(reading.whole).items() if queues == 1]
    return own[0] if len(own) == 1 else None


def _own_topics(file: StateFile | None) -> dict[str, int]:
    """Return the topics that a broker makes of its own name and of its cluster's, with their read queues.

    Source: TopicConfigManager, 4.9.8 and 5.3.3: they and the template of new topics have PERM_INHERIT.
    """
    if file is None:
        return {}
    topics = brokers.topic_config_table(file.text)
    return {
        name: settings.read_queue_nums
        for name, settings in topics.items()
        if settings.perm & _INHERIT and name != _TEMPLATE_TOPIC and not name.startswith(_SYSTEM_PREFIX)
    }


def _read(broker: BrokerFiles) -> None:
    for problem in read_state_file(broker.config, DELAY_OFFSETS, _DECODERS[DELAY_OFFSETS]).problems:
        broker.note(problem)
    for name in (TOPICS, GROUPS):
        _keep(broker, name, read_state_file(broker.config, name, _DECODERS[name]))
    offsets = {name: read_state_file(broker.config, name, _DECODERS[name]) for name in (CONSUMER_OFFSETS, LMQ_OFFSETS)}
    _keep(broker, CONSUMER_OFFSETS, offsets[_current(broker, offsets)])


def _current(broker: BrokerFiles, offsets: dict[str, Reading]) -> str:
    """Return which offset file the broker uses: with enableLmq it keeps another one, and the newer one is in use."""
    plain, lmq = offsets[CONSUMER_OFFSETS].whole, offsets[LMQ_OFFSETS].whole
    if lmq is None or (plain is not None and plain.written_at >= lmq.written_at):
        return CONSUMER_OFFSETS
    if plain is not None:
        reason = f"is older than {LMQ_OFFSETS}: enableLmq was switched on, and the offsets of that file are used"
        broker.note(Damage(str(plain.path), reason))
    return LMQ_OFFSETS


def _rocksdb_of(broker: BrokerFiles, name: str) -> Path | None:
    """Return the RocksDB in which the broker keeps these settings: the newest, where it has moved them."""
    folders = (broker.config / each for each in (ROCKSDB_FOLDERS[name], *SHARED_ROCKSDB_FOLDERS))
    return max((each for each in folders if (each / "CURRENT").is_file()), key=_written_at, default=None)


def _written_at(folder: Path) -> float:
    return max((path.stat().st_mtime for path in folder.iterdir()), default=0.0)


def _written_since(folder: Path, file: StateFile) -> bool:
    return _written_at(folder) > file.written_at.timestamp() + EXPORT_TAKES_S


def _keep(broker: BrokerFiles, name: str, reading: Reading) -> None:
    for problem in reading.problems:
        broker.note(problem)
    in_rocksdb = _rocksdb_of(broker, name)
    if reading.whole is not None:
        broker.files[name] = reading.whole
        if in_rocksdb is not None and _written_since(in_rocksdb, reading.whole):
            reason = f"is older than {in_rocksdb}, where the broker keeps these settings: export it again"
            broker.note(Damage(str(reading.whole.path), reason))
        return
    if in_rocksdb is not None and in_rocksdb.name in SHARED_ROCKSDB_FOLDERS:
        broker.missing[name] = f"{in_rocksdb} is one RocksDB for all settings, which is not read: ask the broker itself"
    elif in_rocksdb is not None:
        broker.missing[name] = (
            f"{in_rocksdb} is RocksDB, which RocketMQ's own tools read: make a copy of {broker.config}, run `mqadmin "
            f"rocksDBConfigToJson -p COPY -t {ROCKSDB_FOLDERS[name]} -e COPY/{name}` (5.4 and later), collect from it"
        )
    elif reading.problems:
        broker.missing[name] = "; ".join(f"{Path(one.source).name} {one.reason}" for one in reading.problems)
    else:
        broker.missing[name] = f"{broker.config / name} is missing, and its .bak too"
