"""Types of the program have names of their own."""

import pathlib

from type_names import find_faults

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_this_repository_has_no_type_twice():
    assert find_faults(ROOT) == []


def test_a_type_in_two_headers_is_named(tmp_path):
    for folder in ("samplers", "training"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "a.h").write_text("#pragma once\n\nclass Planned final : public Base {\n};\nstruct Declared;\n")
    assert find_faults(tmp_path) == [
        "Planned: defined in samplers/a.h and in training/a.h: give one of them another name"]
