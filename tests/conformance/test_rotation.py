"""Tests which cases a run of the tests has."""

import rotation

NAMES = ["test_alone"] + [f"test_{test}[{family}-case{case}-tied]" for test in ("a", "b") for family in ("llama", "gpt_oss")
                          for case in range(60)]


def names_of(turn):
    return {name for name, kept in zip(NAMES, rotation.chosen(NAMES, turn), strict=True) if kept}


def test_each_family_and_each_single_test_runs_at_every_commit():
    for turn in range(rotation.NUM_TURNS):
        assert {"test_alone", *(f"test_{test}[{family}-case0-tied]" for test in "ab" for family in ("llama", "gpt_oss"))} <= names_of(turn)


def test_every_case_runs_at_some_commit():
    assert set().union(*(names_of(turn) for turn in range(rotation.NUM_TURNS))) == set(NAMES)


def test_a_run_has_about_a_tenth_of_the_cases():
    assert all(5 < len(names_of(turn)) < 60 for turn in range(rotation.NUM_TURNS))


def test_all_tests_of_a_run_have_the_same_cases():
    for turn in range(rotation.NUM_TURNS):
        of_test = [{name[len("test_a"):] for name in names_of(turn) if name.startswith(f"test_{test}[")} for test in "ab"]
        assert of_test[0] == of_test[1]


def test_the_commit_decides_the_turn():
    assert rotation.turn_of("0000000a" + "f" * 32) == 0
    assert rotation.turn_of("0000000b" + "f" * 32) == 1
    assert 0 <= rotation.turn_of(rotation.commit_here()) < rotation.NUM_TURNS
