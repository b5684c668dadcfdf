"""Tests which part of the tests a run has: none falls out for ever."""

import hashlib
import pathlib
import re
import subprocess
import sys

import pytest
import rotation

HERE = pathlib.Path(__file__).parent
TURNS = range(rotation.NUM_TURNS)
ALL_TURNS = range(rotation.NUM_TURNS * rotation.NUM_HALVES)
FAMILIES = ("llama", "gpt_oss")
NAMES = (["test_alone", "test_two[1]", "test_two[2]"] + [f"test_few[{case}-x]" for case in range(7)]
         + [f"test_{test}[{family}-case{case}-tied]" for test in "ab" for family in FAMILIES for case in range(61)])
HASHES = [hashlib.sha1(str(number).encode()).hexdigest() for number in range(200)]


def names_of(turn, **how):
    return {name for name, kept in zip(NAMES, rotation.chosen(NAMES, turn, **how), strict=True) if kept}


@pytest.mark.parametrize("how", [{}, {"group_of": rotation.CASES_OF_A_FAMILY}, {"num_parts": 3}])
def test_every_case_runs_at_some_commit(how):
    of_turn = [names_of(turn, **how) for turn in TURNS]
    assert set().union(*of_turn) == set(NAMES)
    assert set().union(*(of_turn[rotation.turn_of(commit) % len(TURNS)] for commit in HASHES)) == set(NAMES)


def test_the_number_of_commits_until_all_turns_have_come_is_small():
    assert {rotation.turn_of(commit) for commit in HASHES} == set(ALL_TURNS)


def test_each_test_and_each_family_runs_at_every_commit():
    for turn in TURNS:
        names = names_of(turn, group_of=rotation.CASES_OF_A_FAMILY)
        assert "test_alone" in names
        for test in "ab":
            assert all(any(name.startswith(f"test_{test}[{family}-") for name in names) for family in FAMILIES)
        assert {name.partition("[")[0] for name in names_of(turn)} == {"test_alone", "test_two", "test_few", "test_a", "test_b"}


def test_a_run_has_about_a_tenth_of_the_cases():
    for turn in TURNS:
        names = names_of(turn)
        assert 12 <= sum(name.startswith("test_a[") for name in names) <= 13
        assert len([name for name in names if name.startswith(("test_two", "test_few"))]) == 2


def test_tests_of_a_family_have_the_same_cases():
    for turn in TURNS:
        names = names_of(turn, group_of=rotation.CASES_OF_A_FAMILY)
        of_test = [{name[len("test_a"):] for name in names if name.startswith(f"test_{test}[")} for test in "ab"]
        assert of_test[0] == of_test[1]


def test_turns_have_about_the_same_number_of_cases_of_all_families():
    families = sorted(path.stem for path in (HERE / "conformance" / "families").glob("*.py"))
    names = [f"test_a[{family}-case{case}]" for number, family in enumerate(families) for case in range(5 + number)]
    sizes = [sum(rotation.chosen(names, turn, rotation.CASES_OF_A_FAMILY)) for turn in TURNS]
    assert len(families) > 30 and max(sizes) < 1.15 * min(sizes)


@pytest.mark.parametrize("num_parts", [1, 3, 10, 50])
@pytest.mark.parametrize("num_items", [0, 1, 2, 9, 10, 73])
def test_every_item_is_in_a_part(num_items, num_parts):
    items = list(range(num_items))
    parts = [rotation.part(items, turn, num_parts) for turn in TURNS]
    assert sorted(set().union(*parts)) == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1
    assert rotation.part(items, None, num_parts) == items


def test_every_preset_comes_and_each_is_a_label_of_a_test():
    assert {preset for turn in TURNS for preset in rotation.presets(turn)} == set(rotation.presets(None))
    assert {preset for commit in HASHES for preset in rotation.presets(rotation.turn_of(commit))} == {"asan", "tsan", "fuzz"}
    text = (HERE / "style" / "CMakeLists.txt").read_text() + (HERE / "fuzz" / "CMakeLists.txt").read_text()
    assert "LABELS slow asan)" in text and "LABELS slow tsan)" in text and '"slow;fuzz"' in text


def folders_with_cpp_tests(pattern):
    """Folders of tests/ in which a CMakeLists.txt has a call that matches."""
    return {file.relative_to(HERE).parts[0] for file in HERE.rglob("CMakeLists.txt") if re.search(pattern, file.read_text())}


@pytest.mark.parametrize(("preset", "pattern"), [("asan", r"packtrain_test\("), ("tsan", r"packtrain_test\([^)]*THREADS")])
def test_every_folder_with_cpp_tests_comes_under_the_sanitizer(preset, pattern):
    turns = [turn for turn in TURNS if preset in rotation.presets(turn)]
    of_turns = {folder for turn in turns for folder in rotation.folders(preset, turn)}
    assert of_turns == set(rotation.folders(preset, None)) == folders_with_cpp_tests(pattern)


def printed(*words, **environment):
    return subprocess.run([sys.executable, HERE / "rotation.py", *words], env=environment, capture_output=True, text=True,
                          check=True).stdout.split()


def test_the_program_prints_the_presets_of_a_turn_and_all_without_one():
    for turn in ALL_TURNS:
        left_out = f"half_{1 - turn // len(TURNS)}"
        assert sorted(printed("presets", PACKTRAIN_TURN=str(turn)) + printed("others", PACKTRAIN_TURN=str(turn))) \
            == ["asan", "fuzz", left_out, "tsan"]
    assert printed("presets") == ["asan", "tsan", "fuzz"] and printed("others") == []
    assert all(printed("folders", "asan", PACKTRAIN_TURN=turn) == ["models"] for turn in ("2", "12"))


def test_each_half_has_every_part_of_the_cases_at_some_turn():
    seen = {f"half_{half}": set() for half in range(rotation.NUM_HALVES)}
    for turn in ALL_TURNS:
        for half in seen.keys() - set(printed("others", PACKTRAIN_TURN=str(turn))):
            seen[half].add(turn % len(TURNS))
    assert all(parts == set(TURNS) for parts in seen.values())


def test_a_slow_file_is_in_one_of_the_halves():
    text = (HERE.parent / "cmake" / "PacktrainTargets.cmake").read_text()
    assert f'% {rotation.NUM_HALVES}")' in text and "APPEND arg_LABELS half_${half})" in text


def test_the_commit_decides_the_turn(tmp_path, monkeypatch):
    assert rotation.turn_of("00000014" + "f" * 32) == 0
    assert rotation.turn_of("0000000b" + "f" * 32) == 11
    assert rotation.turn_here() in ALL_TURNS
    monkeypatch.setattr(rotation, "__file__", str(tmp_path / "rotation.py"))
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert rotation.turn_here() in ALL_TURNS  # outside a checkout
