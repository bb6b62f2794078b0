"""A JVM of this process: tests have many sessions in one, and look into it; the product never has one."""

import os

from pyspark.sql import SparkSession

from offsetguard.config.workspace import Workspace
from offsetguard_spark.engines import LOCAL_ENVIRONMENT, SERVER_CONFIG, local_config, local_master
from offsetguard_spark.session import session_config


def local_session(workspace: Workspace, **config: str) -> SparkSession:
    """Return its first session, with a workspace's catalog; `config` has precedence. The caller stops it."""
    os.environ |= LOCAL_ENVIRONMENT
    builder = SparkSession.builder.master(local_master()).appName("offsetguard")
    for name, value in (SERVER_CONFIG | session_config(workspace) | local_config() | config).items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session
