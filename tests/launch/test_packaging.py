"""The metadata of the wheel agrees with the versions that are tested, and its commands check them."""

import importlib.metadata
import os
import pathlib
import re
import sys
import tomllib

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "launch" / "python"))

from packtrain import commands  # noqa: E402  # the path is set above


def pinned(name: str) -> dict[str, str]:
    lines = (REPO / "launch" / name).read_text().splitlines()
    return dict(line.split("==") for line in lines if not line.startswith("#"))


def project() -> dict:
    return tomllib.loads((REPO / "pyproject.toml").read_text())


def lower_bounds(requirements: list[str]) -> dict[str, str]:
    return dict(re.match(r"([a-z_]+)[>=]=([0-9.]+)", text).groups() for text in requirements)


def test_the_wheel_requires_the_tested_versions_or_newer_ones():
    tested = pinned("requirements.txt")
    del tested["pytest"]
    assert lower_bounds(project()["project"]["dependencies"]) == tested
    data = pinned("requirements-data.txt")
    for name in ("peft", "accelerate", "bitsandbytes", "trl"):  # of tests alone
        del data[name]
    optional = project()["project"]["optional-dependencies"]
    assert lower_bounds([*optional["data"], *optional["score"]]) == data


def test_the_wheel_is_pinned_to_the_torch_that_it_is_built_with():
    torch = f"torch=={pinned('requirements.txt')['torch']}"
    assert torch in project()["project"]["dependencies"]
    assert torch in project()["build-system"]["requires"]


def test_the_backend_of_the_wheel_has_one_version():
    (version,) = re.findall(r"^scikit_build_core_version=(\S+)", (REPO / "launch" / "common.sh").read_text(), re.MULTILINE)
    assert f"scikit-build-core=={version}" in project()["build-system"]["requires"]


@pytest.fixture
def started(monkeypatch):
    """What the commands would start, [program, argument...]."""
    lines = []
    monkeypatch.setattr(os, "execv", lambda _program, words: lines.append(words))
    monkeypatch.setattr(os, "execvp", lambda _program, words: lines.append(words))
    monkeypatch.setattr(sys, "argv", ["packtrain", "plan", "my.yaml"])
    monkeypatch.setattr(importlib.metadata, "requires", lambda _name: ["numpy>=2", "torch==2.11.0"])
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: "2.11.0+cu130")
    monkeypatch.setenv("PACKTRAIN_PYTHON", "")  # so that its value is restored
    monkeypatch.delenv("PACKTRAIN_PYTHON")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/theirs")
    return lines


def test_a_command_starts_its_program_with_the_python_of_the_environment(started):
    commands.packtrain()
    commands.packtrain_run()
    assert started[0] == ["packtrain", "plan", "my.yaml"]
    assert started[1][-4:] == [sys.executable, f"{commands.HOME}/packtrain-run", "plan", "my.yaml"]
    assert os.environ["PACKTRAIN_PYTHON"] == sys.executable


def test_a_torch_in_other_site_packages_is_found(started):
    commands.packtrain()
    folders = os.environ["LD_LIBRARY_PATH"].split(":")
    assert any(folder.endswith("/torch/lib") for folder in folders)
    assert folders[-1] == "/theirs"


def test_another_torch_is_refused(started, monkeypatch, capsys):
    monkeypatch.setattr(importlib.metadata, "version", lambda _name: "2.10.0")
    with pytest.raises(SystemExit) as ended:
        commands.packtrain()
    assert ended.value.code == 69
    assert "got 2.10.0, wanted 2.11.0" in capsys.readouterr().err
    assert not started
