"""How soon trouble is named, and how silent health is: docs/verdicts.md, made of what was measured.

    make verdicts                                                    measure again, on real brokers (an hour and a half)
    python -m offsetguard_peers.verdicts.page > docs/verdicts.md     the page only, of what was measured last

What was measured is kept in `tests/live/incidents/measured.yml`: by `tests/live/incidents` when the variable
OFFSETGUARD_KEEP_VERDICTS is set, by `benchmarks/soak.py --keep`, and by `verdicts_measuring.py`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

MEASURED_FILE = Path(__file__).parents[3] / "live" / "incidents" / "measured.yml"
KEEP_VARIABLE = "OFFSETGUARD_KEEP_VERDICTS"
PARTS = ("incidents", "soaks", "weeks", "forecasts")
_HEAD = "# Measured; write it again with: make verdicts\n"

Measured = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """How one staged trouble was found on one line."""

    incident: str  # I1 to I5
    what: str  # what was staged, in a few words
    rule: str
    severity: str
    rounds: int  # judged rounds from the trouble's beginning on, the one that found it included
    seconds: int  # from the trouble's beginning to the end of that round


def read_measured(file: Path = MEASURED_FILE) -> Measured:
    """Read what was measured last."""
    measured: Measured = yaml.safe_load(file.read_text(encoding="utf-8"))
    return measured


def keep(part: str, figures: Mapping[str, object], file: Path = MEASURED_FILE) -> None:
    """Keep figures of a part by their keys (a version, or a word); what has other keys stays as it is."""
    known = read_measured(file) if file.exists() else {}
    measured = {one: dict(known.get(one) or {}) for one in PARTS}
    measured[part].update(figures)
    ordered = {one: dict(sorted(measured[one].items())) for one in PARTS}
    file.write_text(_HEAD + yaml.safe_dump(ordered, sort_keys=False, width=110), encoding="utf-8")


def keep_incidents(version: str, found: Sequence[Found], *, every_s: float, rounds: int, false_findings: int) -> None:
    """Keep what one line's staged incidents gave."""
    line = {"every_s": every_s, "rounds": rounds, "false_findings": false_findings}
    keep("incidents", {version: {**line, "found": [asdict(one) for one in found]}})


def page(measured: Measured) -> str:
    """Make docs/verdicts.md."""
    lines = [
        "# Verdicts",
        "",
        "How soon trouble is named on live brokers, what is said while nothing is wrong, and how good forecasts are.",
        "This page is made by `make docs` of what was measured last; `make verdicts` measures again, with real brokers",
        "and Java clients, which takes an hour and a half.",
        "",
        "## Incidents",
        "",
        "Five real incidents, and what only looks like them, staged side by side on a master and its slave with Java",
        "consumers at RocketMQ's own time limits, recorded by `offsetguard record` and judged by",
        "`offsetguard diagnose` without any configuration (`tests/live/incidents`). *Found after*: judged rounds since",
        "the trouble began, and the time to the end of that round. The pipeline makes a round a minute.",
        "",
        *_incidents(measured["incidents"]),
        "",
        "## Silence",
        "",
        "On live brokers: a master and its slave with seven consumer groups, a batch that comes and goes, and",
        "newcomers. Every ten seconds or so something happens to them that happens to healthy clusters, and the",
        "collector is away now and then (`benchmarks/soak.py`). Every round is judged; each finding above INFO about a",
        "group that is well counts. In the outages and between them groups are made to stand still: *named in round*",
        "counts rounds of a minute from when the group stopped or the collector came back, whichever is later.",
        "",
        *_soaks(measured["soaks"]),
        "",
        *_weeks(measured["weeks"]),
        "",
        "## Forecasts",
        "",
        *_forecasts(measured["forecasts"]),
    ]
    return "\n".join(lines) + "\n"


def _incidents(lines: Measured) -> Iterator[str]:
    yield (
        "| incident | staged | found | severity | " + " | ".join(f"{version}: found after" for version in lines) + " |"
    )
    yield "|" + "---|" * (4 + len(lines))
    for (incident, what), by_version in _by_incident(lines).items():
        one = next(iter(by_version.values()))
        cells = " | ".join(_after(by_version.get(version)) for version in lines)
        yield f"| {incident} | {what} | `{one['rule']}` | {one['severity']} | {cells} |"
    for version, line in lines.items():
        yield ""
        yield (
            f"{version}: {line['rounds']} rounds, one every {line['every_s']:g} s; "
            f"false findings above INFO in all of them: **{line['false_findings']}**."
        )


def _by_incident(lines: Measured) -> dict[tuple[str, str], dict[str, Measured]]:
    found: dict[tuple[str, str], dict[str, Measured]] = {}
    for version, line in lines.items():
        for one in line["found"]:
            found.setdefault((one["incident"], one["what"]), {})[version] = one
    return found


def _after(one: Measured | None) -> str:
    return f"{one['rounds']} round{'s' if one['rounds'] > 1 else ''}, {one['seconds']} s" if one else ""


def _soaks(soaks: Measured) -> Iterator[str]:
    yield (
        "| version | length | rounds | what happened | collector away | findings above INFO | stood still | "
        "named in round |"
    )
    yield "|---|---|---|---|---|---|---|---|"
    for version, soak in soaks.items():
        happened = ", ".join(f"{count} x {name.replace('_', ' ')}" for name, count in soak["happened"].items())
        away = ", ".join(f"{one:g} min" for one in soak.get("away_min", ()))
        still = f"{soak.get('stood_still', '')} | {', '.join(map(str, soak.get('named_in_rounds', ())))}"
        length = f"{soak['minutes']:g} min | {soak['rounds']}"
        yield f"| {version} | {length} | {happened} | {away} | **{soak['warnings']}** | {still} |"


def _weeks(weeks: Measured) -> Iterator[str]:
    healthy, troubled = weeks["healthy"], weeks["troubled"]
    yield "In simulated weeks with a daily rhythm, deployments, missing snapshots and broker restarts"
    yield (
        f"(`benchmarks/simulated_weeks.py`): {healthy['groups']} groups for {healthy['days']} days, "
        f"{healthy['cycles']:,} cycles: **{healthy['warnings']}** warnings."
    )
    yield (
        f"Of {troubled['injected']} injected troubles {troubled['found']} were found and named, "
        f"each within {troubled['cycles']} cycles, with {troubled['other_warnings']} other warnings."
    )


def _forecasts(forecasts: Measured) -> Iterator[str]:
    tuned, held_out = (forecasts[name] for name in ("tuned", "held_out"))
    yield (
        f"Twice {tuned['warnings']['worlds']} simulated brokers for {tuned['warnings']['days']} days each (time rule, "
        "disk rule, idle topics, a loud"
    )
    yield "topic that pushes others out; `tests/unit/forecasts`). *Inside*: what came lay in the range stated. *Held"
    yield "out*: brokers made of seeds that nobody looked at while forecasts were made."
    yield ""
    yield "| | outcomes | inside | held out: outcomes | inside |"
    yield "|---|---|---|---|---|"
    for kind, text in (("drain", "time to drain"), ("loss", "time to loss")):
        cells = (f"{one[kind]['outcomes']:,} | {_share(one[kind], 'inside', 'outcomes')}" for one in (tuned, held_out))
        yield f"| {text} | {' | '.join(cells)} |"
    yield ""
    yield "| losses that a person could have prevented | | held out |"
    yield "|---|---|---|"
    both = tuned["warnings"], held_out["warnings"]
    yield "| how many | " + " | ".join(str(one["preventable"]) for one in both) + " |"
    yield "| warned of 30 min before | " + " | ".join(_share(one, "warned", "preventable") for one in both) + " |"
    yield "| all warnings of a loss | " + " | ".join(str(one["said"]) for one in both) + " |"
    yield "| needless ones | " + " | ".join(str(one["needless"]) for one in both) + " |"


def _share(figures: Measured, part: str, whole: str) -> str:
    return f"{figures[part] / figures[whole]:.1%}"


if __name__ == "__main__":
    sys.stdout.write(page(read_measured()))
