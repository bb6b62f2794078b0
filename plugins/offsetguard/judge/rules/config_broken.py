"""The configuration file cannot be used, so everything goes on with the last one that was right.

Means: somebody changed it and made a mistake; clusters, limits, teams and routes are still those from before.
Evidence: the file's own mistakes with their lines, as every task sees them when it reads the file.
Not judged: whether a file that holds is what was meant; `offsetguard config check` says what looks like a mistake.
Do next: run offsetguard config check, and correct the lines that it names.
Source: `config/file.py`.
"""

from collections.abc import Iterator

from offsetguard.judge.rule import Config, Figure, Finding, IntervalFacts, Rule, Severity, Texts

RULE = Rule(
    id="config_broken",
    severity=Severity.WARNING,
    place=10,
    never_muted=True,
    needs=("config_problem",),
    means="The configuration file cannot be used; everything goes on with the last one that was right.",
    texts={
        "default": Texts(
            summary="the configuration file has {problem_count} mistake{problem_count:plural} and is not used",
            summary_zh="配置文件有 {problem_count} 处错误，未被使用",
            cause="The configuration file was changed and cannot be used ({first_problem}). Cluster {cluster} is "
            "watched by the last configuration that was right, and nothing that was changed since holds.",
            cause_zh="配置文件已修改但无法使用（{first_problem}）。集群 {cluster} 仍按上一份正确的配置监控，此后的修改"
            "均未生效。",
            do_next="Run offsetguard config check, which names every mistake with its line, and correct them; the "
            "next tasks read the file again, and nothing needs to be restarted.",
            do_next_zh="请运行 offsetguard config check，它会列出每处错误及行号；修正后，后续任务会重新读取文件，无需"
            "重启。",
        ),
    },
    title="the configuration file is broken",
    title_zh="配置文件有误",
    table=("first_problem", "problem_count"),
    recovered="the configuration file is right again and in use",
    recovered_zh="配置文件已修正并生效",
    bad_cycles=2,  # a file that is being edited may be broken when a task looks
)


def find(facts: IntervalFacts, config: Config) -> Iterator[Finding]:
    """At most one finding for the cluster; `config` is the one from before."""
    if facts.config_problem is not None:
        problems = facts.config_problem.splitlines()
        figures: dict[str, Figure] = {"first_problem": problems[0][:500], "problem_count": len(problems)}
        yield RULE.finding(facts, figures, state="UNKNOWN")
