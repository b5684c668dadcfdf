"""Only the folder that implements an alternative names it."""

import pathlib

import pytest
from chosen_names import find_faults

REPO = pathlib.Path(__file__).resolve().parents[2]


def test_no_other_code_names_one():
    assert find_faults(REPO) == []


def source(root: pathlib.Path, name: str, line: str):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(f"// first\n{line}\n")


@pytest.mark.parametrize("name, line", [
    ("training/plan/a.cpp", "if (batch.strategy == Strategy::kPadding) pad();"),
    ("training/checkpoint/a.cpp", 'tensors.add("exp_avg_sq", shard);'),
    ("training/plan/a.cpp", "options.num_ranks = world.size();"),
])
def test_each_is_found(tmp_path, name, line):
    source(tmp_path, name, line)
    [fault] = find_faults(tmp_path)
    assert fault.startswith(f"{name}:2: ")


@pytest.mark.parametrize("name, line", [
    ("samplers/strategies/a.cpp", "StrategyEntry{Strategy::kPadding, check_padding};"),
    ("framework/config/strategy.h", "constexpr Strategy kDefaultStrategy = Strategy::kBalanced;"),
    ("training/plan/a.cpp", "if (traits_of(batch.strategy).has_rows) cut();  // not Strategy::kPadding"),
])
def test_a_name_in_its_folder_is_not(tmp_path, name, line):
    source(tmp_path, name, line)
    assert find_faults(tmp_path) == []
