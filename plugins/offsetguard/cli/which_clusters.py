"""Which clusters a command looks at, and with which login: `--namesrv`, or `--config` with `--cluster`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import click
from pydantic import TypeAdapter, ValidationError

from offsetguard.config import Cluster, Config, Team
from offsetguard.config.fields import Address
from offsetguard.config.file import load_config
from offsetguard.model.errors import ConfigError
from offsetguard.sources.rocketmq.signing import Credentials

ACCESS_KEY, SECRET_KEY = "OFFSETGUARD_ACCESS_KEY", "OFFSETGUARD_SECRET_KEY"
ALL = "all"
_ADDRESS: TypeAdapter[str] = TypeAdapter(Address)
_NO_NAME = re.compile(r"[^A-Za-z0-9_.-]")


def chosen_clusters(
    namesrv: str | None, config_file: Path | None, clusters: Sequence[str]
) -> tuple[tuple[str, ...], Config]:
    """Return the names of the clusters and the configuration that describes them; raises UsageError.

    A file with one cluster needs no `--cluster`; `all` means every cluster of the file.
    """
    if (namesrv is None) == (config_file is None):
        raise click.UsageError("say which cluster: either --namesrv HOST:PORT, or --config FILE with --cluster NAME")
    if namesrv is not None:
        if clusters:
            raise click.UsageError("--cluster names a cluster of --config; leave it out with --namesrv")
        name, config = config_for(namesrv)
        return (name,), config
    assert config_file is not None  # noqa: S101 one of the two is given
    config = load_config(config_file)
    known = ", ".join(config.clusters)
    if not clusters and len(config.clusters) > 1:
        raise click.UsageError(f"--cluster: say which one of {known}")
    names = tuple(config.clusters) if not clusters or ALL in clusters else tuple(dict.fromkeys(clusters))
    for name in names:
        if name not in config.clusters:
            raise click.UsageError(f"--cluster: there is no cluster {name!r} in {config_file}; clusters: {known}")
    return names, config


def config_for(namesrv: str) -> tuple[str, Config]:
    """Return a cluster's name, made of its first name server, and a configuration with the default limits."""
    addresses = [address.strip() for address in namesrv.split(";") if address.strip()]
    for address in addresses:
        try:
            _ADDRESS.validate_python(address)
        except ValidationError:
            raise click.UsageError(f"--namesrv: {address!r} is no HOST:PORT, for example 10.0.0.1:9876") from None
    if not addresses:
        raise click.UsageError("--namesrv: names no name server; write for example 10.0.0.1:9876")
    name = safe_name(addresses[0])
    return name, default_config({name: addresses})


def default_config(name_servers: Mapping[str, Sequence[str]]) -> Config:
    """Return a configuration with the default limits for clusters by name, with their name servers."""
    nobody = {"nobody": Team(mail=["nobody@localhost"])}  # nothing is sent
    clusters = {name: Cluster(name_servers=list(addresses)) for name, addresses in name_servers.items()}
    return Config(clusters=clusters, teams=nobody, default_team="nobody")


def safe_name(text: str) -> str:
    """Return a text as the name of a cluster, which is also the name of a folder."""
    return _NO_NAME.sub("-", text).lstrip("._-")[:100] or "cluster"


def credentials_from(environment: Mapping[str, str]) -> Credentials | None:
    """Read the login; raises ConfigError when half of it is there."""
    access_key, secret_key = environment.get(ACCESS_KEY), environment.get(SECRET_KEY)
    if not access_key and not secret_key:
        return None
    if not access_key or not secret_key:
        missing = SECRET_KEY if access_key else ACCESS_KEY
        raise ConfigError(f"environment variable {missing} is missing: a login needs {ACCESS_KEY} and {SECRET_KEY}")
    return Credentials(access_key, secret_key)
