"""Files for contributors: what they name exists, and what they promise is there."""

import pathlib
import re
import subprocess

import pytest
import yaml

REPO = pathlib.Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((REPO / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (REPO / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
SCRIPT = re.compile(r"\b(?:launch|tests|docs|benchmarks|\.ci)/[\w./-]+")


def load(path: pathlib.Path):
    return yaml.safe_load(path.read_text())


def steps_of(workflow: pathlib.Path) -> list[dict]:
    return [step for job in load(workflow)["jobs"].values() for step in job["steps"]]


def tracked_folders() -> set[str]:
    files = subprocess.run(["git", "ls-files"], cwd=REPO, check=True, capture_output=True, text=True).stdout
    return {line.split("/")[0] for line in files.splitlines() if "/" in line}


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_each_script_of_a_workflow_exists(workflow):
    named = [name for step in steps_of(workflow) for name in SCRIPT.findall(step.get("run", ""))]
    assert named and [name for name in named if not (REPO / name).is_file()] == []


def test_workflows_run_the_tests_as_contributors_do():
    commands = [step["run"] for workflow in WORKFLOWS for step in steps_of(workflow) if "run" in step]
    assert {"tests/run", "tests/run --all", "tests/lint --format", "tests/lint --python"} <= set(commands)


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_may_only_read_and_have_a_time_limit(workflow):
    read = load(workflow)
    assert read["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in read["jobs"].values())


@pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_name_no_host(workflow):
    assert "://" not in workflow.read_text()


@pytest.mark.parametrize("form", FORMS, ids=lambda path: path.name)
def test_issue_forms_ask_for_doctor_configuration_and_log(form):
    assert {"doctor", "config", "log"} <= {field.get("id") for field in load(form)["body"]}


def test_each_folder_has_one_line_of_owners():
    lines = [line.split() for line in (REPO / ".github" / "CODEOWNERS").read_text().splitlines()]
    rows = [words for words in lines if words and words[0] != "#"]
    assert all(len(words) >= 2 and words[1].startswith("@") for words in rows)
    owned = [words[0].strip("/") for words in rows if words[0] != "*"]
    assert sorted(owned) == sorted(tracked_folders())


def test_each_hook_is_of_this_repository_and_its_script_exists():
    repositories = load(REPO / ".pre-commit-config.yaml")["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    for hook in repositories[0]["hooks"]:
        named = SCRIPT.findall(hook["entry"])
        assert len(named) == 1 and (REPO / named[0]).is_file(), hook


def test_editors_get_the_line_lengths_of_the_formatter_and_of_ruff():
    lengths = re.findall(r"^max_line_length = (\d+)$", (REPO / ".editorconfig").read_text(), re.MULTILINE)
    formatter = re.search(r"^ColumnLimit: (\d+)$", (REPO / ".clang-format").read_text(), re.MULTILINE)
    ruff = re.search(r"^line-length = (\d+)$", (REPO / "pyproject.toml").read_text(), re.MULTILINE)
    assert lengths == [formatter[1], ruff[1]]


@pytest.mark.parametrize("name", ["requirements.txt", "requirements-data.txt", "requirements-lint.txt"])
def test_each_required_package_has_one_version(name):
    lines = (REPO / "launch" / name).read_text().splitlines()
    assert [line for line in lines if line and not re.fullmatch(r"#.*|[\w.-]+==[\w.]+", line)] == []
