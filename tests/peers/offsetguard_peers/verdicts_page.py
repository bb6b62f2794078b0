"""How soon trouble is named, and how silent health is: docs/verdicts.md, made of what was measured.

    make verdicts                                                    measure again on real brokers (about an hour)
    python -m offsetguard_peers.verdicts_page > docs/verdicts.md     the page only, of what was measured last

Measured figures are kept in `tests/live/incidents/measured.yml`: by `tests/live/incidents` when the variable
OFFSETGUARD_KEEP_VERDICTS is set, and by `benchmarks/soak.py --keep`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from offsetguard_peers.soak import SoakResult

MEASURED_FILE = Path(__file__).parents[2] / "live" / "incidents" / "measured.yml"
KEEP_VARIABLE = "OFFSETGUARD_KEEP_VERDICTS"
_HEAD = "# Measured on real brokers; write it again with: make verdicts\n"

Measured = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """How one staged incident was found on one line."""

    incident: str  # I1 to I5, and a look-alike's harm
    what: str  # what was staged, in a few words
    rule: str
    severity: str
    rounds: int  # judged rounds from the trouble's beginning on, the one that found it included
    seconds: float  # from the trouble's beginning to the end of that round


def read_measured(file: Path = MEASURED_FILE) -> Measured:
    """Read what was measured last."""
    measured: Measured = yaml.safe_load(file.read_text(encoding="utf-8"))
    return measured


def keep_incidents(
    version: str,
    found: Sequence[Found],
    *,
    every_s: float,
    rounds: int,
    false_findings: int,
    file: Path = MEASURED_FILE,
) -> None:
    """Keep what one line's staged incidents gave; other lines stay as they are."""
    measured = _known(file)
    measured["incidents"][version] = {
        "every_s": every_s,
        "rounds": rounds,
        "false_findings": false_findings,
        "found": [
            {
                "incident": one.incident,
                "what": one.what,
                "rule": one.rule,
                "severity": one.severity,
                "rounds": one.rounds,
                "seconds": round(one.seconds),
            }
            for one in found
        ],
    }
    _write(measured, file)


def keep_soak(result: SoakResult, *, every_s: float, file: Path = MEASURED_FILE) -> None:
    """Keep what a soak gave; one of each line."""
    measured = _known(file)
    measured["soaks"][result.version] = {
        "minutes": result.minutes,
        "every_s": every_s,
        "rounds": result.round_count,
        "happened": result.action_counts(),
        "warnings": len(result.warnings),
    }
    _write(measured, file)


def page(measured: Measured) -> str:
    """Make docs/verdicts.md."""
    lines = [
        "# Verdicts",
        "",
        "How soon each of five real incidents is named on live brokers, and what is said while nothing is wrong. This",
        "page is made by `make docs` of what was measured last; `make verdicts` measures again (real brokers and Java",
        "clients, about an hour).",
        "",
        "## Incidents",
        "",
        "Each is staged with real brokers and consumers at RocketMQ's own time limits, side by side with look-alikes",
        "that are harmless, recorded by `offsetguard record` and judged by `offsetguard diagnose` without any",
        "configuration (`tests/live/incidents`). *Found after*: judged rounds since the trouble began, and the time to",
        "the end of that round; the pipeline makes a round a minute, so it finds after as many minutes at most.",
        "",
        *_incidents(measured["incidents"]),
        "",
        "## Silence",
        "",
        "A master and its slave with seven consumer groups; every ten seconds or so something happens that happens to",
        "healthy clusters (`benchmarks/soak.py`). Every round is judged; a finding above INFO is a false alarm.",
        "",
        *_soaks(measured["soaks"]),
    ]
    return "\n".join(lines) + "\n"


def _incidents(lines: Measured) -> Iterator[str]:
    yield (
        "| incident | staged | found | severity | " + " | ".join(f"{version}: found after" for version in lines) + " |"
    )
    yield "|" + "---|" * (4 + len(lines))
    for (incident, what), by_version in _by_incident(lines).items():
        (rule, severity) = next((one["rule"], one["severity"]) for one in by_version.values())
        cells = [_after(by_version.get(version)) for version in lines]
        yield f"| {incident} | {what} | `{rule}` | {severity} | " + " | ".join(cells) + " |"
    yield ""
    for version, line in lines.items():
        yield (
            f"{version}: {line['rounds']} rounds, one every {line['every_s']:g} s; "
            f"false findings above INFO: **{line['false_findings']}**. "
        )


def _by_incident(lines: Measured) -> dict[tuple[str, str], dict[str, Measured]]:
    found: dict[tuple[str, str], dict[str, Measured]] = {}
    for version, line in lines.items():
        for one in line["found"]:
            found.setdefault((one["incident"], one["what"]), {})[version] = one
    return found


def _after(one: Measured | None) -> str:
    if one is None:
        return ""
    return f"{one['rounds']} round{'s' if one['rounds'] > 1 else ''}, {one['seconds']} s"


def _soaks(soaks: Measured) -> Iterator[str]:
    yield "| version | length | rounds | what happened | findings above INFO |"
    yield "|---|---|---|---|---|"
    for version, soak in soaks.items():
        happened = ", ".join(f"{count} x {name.replace('_', ' ')}" for name, count in soak["happened"].items())
        yield f"| {version} | {soak['minutes']:g} min | {soak['rounds']} | {happened} | **{soak['warnings']}** |"


def _known(file: Path) -> Measured:
    known = read_measured(file) if file.exists() else {}
    return {"incidents": known.get("incidents") or {}, "soaks": known.get("soaks") or {}}


def _write(measured: Measured, file: Path) -> None:
    ordered = {part: {key: measured[part][key] for key in sorted(measured[part])} for part in measured}
    file.write_text(_HEAD + yaml.safe_dump(ordered, sort_keys=False, width=110), encoding="utf-8")


if __name__ == "__main__":
    sys.stdout.write(page(read_measured()))
