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


def test_a_local_jvm_and_the_warm_server_map_the_archive_which_is_made_once(
    spark: SparkSession, spark_server: ConnectServer
) -> None:
    archive = class_archive(jar_paths("iceberg"))
    assert archive is not None
    if not archive.is_file():
        fail_or_skip("this Java keeps no classes (`make install` says so)")
    assert spark._jvm is not None
    for process_id in (spark._jvm.java.lang.ProcessHandle.current().pid(), spark_server.process_id()):
        assert str(archive) in Path(f"/proc/{process_id}/maps").read_text()
    made_at = archive.stat().st_mtime_ns
    assert make_class_archive() == archive
    assert archive.stat().st_mtime_ns == made_at


def test_each_set_of_jars_has_an_archive_whose_path_may_have_a_space(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OFFSETGUARD_CACHE", str(tmp_path / "a cache"))
    jar = tmp_path / "one.jar"
    jar.write_bytes(b"1")
    of_another = class_archive([jar])
    jar.write_bytes(b"22")
    file = class_archive([jar])
    assert file is not None
    assert file != of_another
    assert class_archive_options([jar]) == ""
    file.parent.mkdir()
    file.touch()
    assert shlex.split(class_archive_options([jar]))[0] == f"-XX:SharedArchiveFile={file}"


def test_a_java_that_is_missing_or_does_not_run_spark_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "jars").symlink_to(cache_folder() / "jars")
    monkeypatch.setenv("OFFSETGUARD_CACHE", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert class_archive_options([]) == ""
    with pytest.raises(OffsetGuardError, match="no java in PATH, and no JAVA_HOME"):
        make_class_archive()

    of_other_jars = tmp_path / "spark-classes-0.jsa"
    of_other_jars.touch()
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").write_text("#!/bin/sh\necho no room in here; exit 7\n")
    (tmp_path / "bin" / "java").chmod(0o755)
    with pytest.raises(OffsetGuardError, match=r"Spark ended with code \d+:\n(.*\n)*.*no room in here"):
        make_class_archive()
    assert not of_other_jars.exists()
