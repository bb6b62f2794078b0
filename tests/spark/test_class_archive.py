"""Spark's classes are kept when the product is installed, and every JVM of ours starts with them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from offsetguard.model.errors import OffsetGuardError
from offsetguard_peers.needs import fail_or_skip
from offsetguard_spark.class_archive import class_archive, class_archive_options
from offsetguard_spark.connect_server import ConnectServer
from offsetguard_spark.jars import cache_folder, jar_paths
from offsetguard_spark.make_class_archive import make_class_archive


@pytest.fixture
def archive() -> Path:
    file = class_archive(jar_paths("iceberg"))
    assert file is not None
    if not file.is_file():
        fail_or_skip("this Java keeps no classes (`make install` says so)")
    return file


@pytest.fixture
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a cache with the jars and nothing else."""
    jars = cache_folder() / "jars"
    monkeypatch.setenv("OFFSETGUARD_CACHE", str(tmp_path))
    (tmp_path / "jars").symlink_to(jars)
    return tmp_path


def java_that(does: str, folder: Path) -> Path:
    java = folder / "java-home" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\n{does}\n")
    java.chmod(0o755)
    return java.parent.parent


def test_a_local_jvm_maps_the_archive(archive: Path, spark: SparkSession) -> None:
    assert spark._jvm is not None
    assert is_mapped(archive, spark._jvm.java.lang.ProcessHandle.current().pid())


def test_the_warm_server_maps_the_archive(archive: Path, spark_server: ConnectServer) -> None:
    process_id = spark_server.process_id()
    assert process_id is not None
    assert is_mapped(archive, process_id)


def is_mapped(file: Path, process_id: int) -> bool:
    return str(file) in Path(f"/proc/{process_id}/maps").read_text()


def test_an_archive_that_is_there_is_not_made_again(archive: Path) -> None:
    before = archive.stat().st_mtime_ns
    assert make_class_archive() == archive
    assert archive.stat().st_mtime_ns == before


def test_options_name_the_archive_even_with_a_space_in_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFSETGUARD_CACHE", str(tmp_path / "a cache"))
    file = class_archive([])
    assert file is not None
    assert class_archive_options([]) == ""
    file.parent.mkdir()
    file.touch()
    assert shlex.split(class_archive_options([]))[0] == f"-XX:SharedArchiveFile={file}"


def test_another_jar_or_another_java_has_another_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jar = tmp_path / "one.jar"
    jar.write_bytes(b"1")
    first = class_archive([jar])
    jar.write_bytes(b"22")
    second = class_archive([jar])
    monkeypatch.setenv("JAVA_HOME", str(java_that("true", tmp_path)))
    assert len({first, second, class_archive([jar])}) == 3


def test_without_java_there_is_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive([]) is None
    assert class_archive_options([]) == ""
    with pytest.raises(OffsetGuardError, match="no java in PATH, and no JAVA_HOME"):
        make_class_archive()


def test_a_spark_that_does_not_run_is_told_with_its_last_words(
    empty_cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_other_jars = empty_cache / "spark-classes-0.jsa"
    of_other_jars.touch()
    monkeypatch.setenv("JAVA_HOME", str(java_that("echo no room in here; exit 7", tmp_path)))
    with pytest.raises(OffsetGuardError, match=r"Spark ended with code \d+:\n(.*\n)*.*no room in here"):
        make_class_archive()
    assert not of_other_jars.exists()
