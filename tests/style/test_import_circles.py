"""Modules of the Python programs import each other in one direction."""

import pathlib

from import_circles import find_circle

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_programs_of_the_launcher_have_none():
    assert find_circle(ROOT / "launch" / "python") == []


def test_a_circle_through_an_import_inside_a_function_is_found(tmp_path):
    package = tmp_path / "tools"
    package.mkdir()
    (package / "files.py").write_text("def check():\n    from tools.contents import look\n    look()\n")
    (package / "contents.py").write_text("from tools.inputs import opened\n")
    (package / "inputs.py").write_text("from tools import files\n")
    assert set(find_circle(tmp_path)) == {"tools.files", "tools.contents", "tools.inputs"}


def test_modules_in_one_direction_have_none(tmp_path):
    (tmp_path / "a.py").write_text("import b\nimport os\n")
    (tmp_path / "b.py").write_text("from os import path\n")
    assert find_circle(tmp_path) == []
