"""tests/lint --metrics: the code keeps to its size limits, and what does not is found."""

import pathlib
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def code_metrics():
    command = ". launch/common.sh && lizard_folder"
    folder = subprocess.run(["bash", "-c", command], cwd=REPO, check=True, capture_output=True, text=True).stdout
    sys.path.insert(0, folder.strip())
    import code_metrics

    return code_metrics


def test_the_code_keeps_to_its_size_limits(code_metrics):
    report = code_metrics.report(REPO)
    for what in ("include edges against the direction", "files over 300 and functions over 100 lines",
                 "functions of headers that no comment documents"):
        assert f"{what}: 0\n" in report, report
    rows = [row.split("|") for row in report.splitlines() if row.startswith("| ")][1:]
    assert [row[1].strip() for row in rows] == ["C++ and CUDA", "tests in C++", "Python"]
    for row in rows:
        _, ninetieth, _ = row[6].split("/")
        assert int(ninetieth) < 40, row


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "models").mkdir()
    (tmp_path / "framework" / "core").mkdir(parents=True)
    (tmp_path / "framework" / "data").mkdir()

    def write(name, text):
        (tmp_path / name).write_text(text)
        return tmp_path

    return write


def test_a_too_long_function_and_file_are_named(code_metrics, tree):
    root = tree("models/a.cpp", "int f(int x) {\n" + "  x += 1;\n" * 120 + "  return x;\n}\n" + "// more\n" * 600)
    report = code_metrics.report(root)
    assert "functions over 100 lines: 2\n" in report
    assert "  models/a.cpp: 723 lines\n" in report and "  models/a.cpp: f: 123 lines\n" in report


def test_an_include_against_the_direction_is_named(code_metrics, tree):
    tree("framework/data/a.h", "// A store.\n")
    report = code_metrics.report(tree("framework/core/b.cpp", '#include "framework/data/a.h"\n'))
    assert "against the direction: 1\n  framework/core/b.cpp:1: framework/core must not include framework/data" in report


def test_a_function_without_a_comment_is_named(code_metrics, tree):
    report = code_metrics.report(tree("models/a.h", "#pragma once\n\n// Explained.\nint f(int x);\n\nint g(int x);\n"))
    assert "no comment documents: 1\n  models/a.h: int g(\n" in report


def test_what_is_written_twice_is_named_once_however_long(code_metrics, tree):
    lines = "".join(f"  x += f{i}(x);\n" for i in range(12))
    tree("models/a.cpp", "int f(int x) {\n" + lines + "  return x;\n}\n")
    report = code_metrics.report(tree("models/b.cpp", "int g(int x) {\n  x = 2;\n" + lines + "  return -x;\n}\n"))
    assert "runs of 8 equal lines: 1\n  models/a.cpp:2 = models/b.cpp:3" in report
