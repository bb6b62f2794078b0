"""Logging configuration of RocketMQ 4.x: it is in no jar, and a broker without it does not start.

Files and line layouts are those of the official distribution (broker.log, lock.log, ...), without rolling.
"""

from __future__ import annotations

from pathlib import Path

THREAD_LAYOUT = "%d{yyy-MM-dd HH:mm:ss,GMT+8} %p %t - %m%n"
STATS_LAYOUT = "%d{yyy-MM-dd HH:mm:ss,GMT+8} %p - %m%n"
BARE_LAYOUT = "%d{yyy-MM-dd HH:mm:ss,GMT+8} - %m%n"

# logger -> file name and layout
BROKER_LOGGERS = {
    "RocketmqBroker": ("broker", THREAD_LAYOUT),
    "RocketmqRebalanceLock": ("lock", THREAD_LAYOUT),
    "RocketmqFilter": ("filter", THREAD_LAYOUT),
    "RocketmqStats": ("stats", STATS_LAYOUT),
    "RocketmqStore": ("store", THREAD_LAYOUT),
    "RocketmqStoreError": ("storeerror", THREAD_LAYOUT),
    "RocketmqRemoting": ("remoting", THREAD_LAYOUT),
    "RocketmqTransaction": ("transaction", THREAD_LAYOUT),
    "RocketmqWaterMark": ("watermark", BARE_LAYOUT),
    "RocketmqProtection": ("protection", BARE_LAYOUT),
}


def write_logback_files(conf_folder: Path) -> None:
    """Write logback_broker.xml, logback_namesrv.xml and logback_tools.xml."""
    conf_folder.mkdir(parents=True, exist_ok=True)
    (conf_folder / "logback_broker.xml").write_text(_document("broker_default", BROKER_LOGGERS))
    (conf_folder / "logback_namesrv.xml").write_text(_document("namesrv", {}))
    (conf_folder / "logback_tools.xml").write_text(_document("tools", {}))


def _document(root_file: str, loggers: dict[str, tuple[str, str]]) -> str:
    parts = [_appender(root_file, THREAD_LAYOUT)]
    for logger, (file, layout) in loggers.items():
        parts.append(_appender(file, layout))
        parts.append(
            f'<logger name="{logger}" additivity="false"><level value="INFO"/><appender-ref ref="{file}"/></logger>'
        )
    root = f'<root><level value="INFO"/><appender-ref ref="{root_file}"/></root>'
    return f"<configuration>{''.join(parts)}{root}</configuration>\n"


def _appender(file: str, layout: str) -> str:
    return (
        f'<appender name="{file}" class="ch.qos.logback.core.FileAppender">'
        f"<file>${{user.home}}/logs/rocketmqlogs/{file}.log</file>"
        f"<encoder><pattern>{layout}</pattern></encoder></appender>"
    )
