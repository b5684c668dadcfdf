"""tests/coverage: a folder's share of lines that ran, and the lines that did not by name."""

import pathlib
import subprocess
import sys

REPO = pathlib.Path(__file__).resolve().parents[2]
SOURCE = """\
int chosen(int x) {
  if (x > 0)
    return 1;
  return 2;
}
int never(int x) {
  return x;
}
int main() { return chosen(1) - 1; }
"""


def cover(root, build):
    command = [sys.executable, str(REPO / "tests" / "style" / "line_coverage.py"), str(build), str(root)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_lines_that_never_ran_are_counted_and_named(tmp_path):
    root, build = tmp_path / "root", tmp_path / "root" / "build-coverage"
    source = root / "framework" / "data" / "store.cpp"
    for folder in (source.parent, build):
        folder.mkdir(parents=True)
    source.write_text(SOURCE, encoding="utf-8")
    subprocess.run(["g++", "--coverage", "-O0", str(source), "-o", "program"], cwd=build, check=True)
    before = cover(root, build)
    assert before.returncode == 1 and "has no counters" in before.stderr
    subprocess.run([str(build / "program")], check=True)
    after = cover(root, build)
    assert after.returncode == 0, after.stderr
    assert "| framework/data | 7 | 57.1 % |" in after.stdout
    assert "framework/data/store.cpp: 3 of 7 lines did not run" in after.stdout
    assert (build / "lines-not-run.txt").read_text() == "framework/data/store.cpp: 4, 6-7\n"
