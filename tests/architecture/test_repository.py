"""The repository stands alone: it names no machine of ours, and its two commands are real."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TRACKED = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\n")
TEXT_FILES = [name for name in TRACKED if name and not name.endswith((".png", ".bin", ".parquet", ".lock"))]

FOREIGN = {
    "a path of somebody's machine": re.compile(r"(?<![\w.])/(?:home|root|work)/\w"),
    "a folder outside of the repository": re.compile(r"\.\./shar" + "ed"),
    "a registry's host": re.compile("repo1" + r"\.maven|pypi\.o" + "rg|registry\\.npm"),
}


@pytest.mark.parametrize("what", FOREIGN)
def test_no_tracked_file_names(what: str) -> None:
    """A clone works on a machine that has nothing but the clone."""
    offenders = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in TEXT_FILES
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if FOREIGN[what].search(line)
    ]
    assert not offenders, f"{what}:\n" + "\n".join(offenders)


def test_the_readme_s_two_commands_are_make_targets() -> None:
    """A stranger types what the README says."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert {"demo", "test"} <= named <= targets


def test_ci_runs_what_developers_run() -> None:
    """`.ci/run` has no test command of its own."""
    assert re.search(r"^make test$", (ROOT / ".ci/run").read_text(encoding="utf-8"), re.MULTILINE)


def test_pyspark_and_its_client_have_one_version() -> None:
    """They share one folder: a difference would overwrite one with the other."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions = {d.split("==")[1] for d in project["dependencies"] if d.startswith("pyspark")}
    assert len(versions) == 1


def test_everything_that_is_installed_is_pinned_with_a_checksum() -> None:
    packages = tomllib.loads((ROOT / "uv.lock").read_text(encoding="utf-8"))["package"]
    fetched = [one for one in packages if one["name"] != "offsetguard"]
    files = [[*one.get("wheels", ()), *([one["sdist"]] if "sdist" in one else ())] for one in fetched]
    assert all(files)
    assert [one["url"] for of_one in files for one in of_one if not one["hash"].startswith("sha256:")] == []
    uv = (ROOT / "tools/uv-requirements.txt").read_text(encoding="utf-8").replace("\\\n", " ")
    jar_sets = [one.read_text(encoding="utf-8") for one in (ROOT / "spark/offsetguard_spark/jar_sets").iterdir()]
    lines = [line for text in (uv, *jar_sets) for line in text.splitlines() if line and line[0] != "#"]
    pinned = re.compile(r"\S+==\S+( +--hash=sha256:[0-9a-f]{64})+|[^\s:]+:\S+:\S+ [0-9a-f]{64}")
    assert [line for line in lines if not pinned.fullmatch(line.strip())] == []


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "docs/index.md"])
def test_every_link_of_a_first_page_leads_to_a_file(page: str) -> None:
    """What is shown and named to newcomers is in the repository."""
    text = (ROOT / page).read_text(encoding="utf-8")
    targets = {t for t in re.findall(r"\]\(([^)#\s]+)\)", text) if not t.startswith("http")}
    assert targets
    assert not [target for target in targets if not ((ROOT / page).parent / target).exists()]
