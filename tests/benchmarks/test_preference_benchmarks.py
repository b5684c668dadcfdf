"""benchmarks/preferences: lengths of pairs and rollouts, the lines of a store, the figures of a side, all programs."""

import json
import os
import random
import subprocess
import sys

import pytest

from folders import ROOT

import data
import runs

FOLDER = os.path.join(ROOT, "benchmarks", "preferences")


def test_a_prompt_with_its_answer_is_as_long_as_an_example_of_flan():
    generator = random.Random(0)
    drawn = [data.flan_pair(generator) for _ in range(20000)]
    lengths = [prompt + answers[0] for prompt, answers in drawn]
    assert sum(lengths) / len(lengths) == pytest.approx(475, rel=0.03)  # docs/glossary.md
    assert all(prompt + answer <= data.LONGEST + 1 and prompt >= 1 and answer >= 2
               for prompt, answers in drawn for answer in answers)


@pytest.mark.parametrize("kind, draw", [("pairs", data.constant_pair(5, 3)),
                                        ("rollouts", data.rollouts_of_prompt(5, 8, 3.0, 1.0))])
def test_all_answers_of_a_group_follow_its_prompt(tmp_path, kind, draw):
    path = data.write_groups(str(tmp_path / "new" / "lines.jsonl"), draw, 4, 100, kind)
    with open(path, encoding="utf-8") as file:
        groups = [json.loads(line) for line in file]
    assert len(groups) == 4
    for group in groups:
        members = group["rollouts"] if kind == "rollouts" else list(group.values())
        assert len(members) == (8 if kind == "rollouts" else 2)
        assert len({tuple(member["input_ids"][:5]) for member in members}) == 1
        assert all(member["labels"] == [-100] * 5 + member["input_ids"][5:] for member in members)
        assert all("advantage" in member for member in members) == (kind == "rollouts")


def test_the_ratio_is_that_of_groups_a_second_and_missing_where_a_side_failed(tmp_path, capsys):
    fast, slow = ({"side": name, "groups_s": rate} for name, rate in (("ours", 10.0), ("theirs", 4.0)))
    assert runs.report([fast, slow], str(tmp_path), "a", ("pairs a second", fast, slow))["ratio"] == 2.5
    assert "pairs a second: 2.50 x" in capsys.readouterr().out
    failed = {"side": "theirs", "error": "out of memory"}
    assert runs.report([fast, failed], str(tmp_path), "b", ("pairs a second", fast, failed))["ratio"] is None
    assert json.loads((tmp_path / "b.json").read_text())["rows"][1] == failed


def test_a_turn_follows_the_questions_and_answers_before_it_without_their_thoughts(tmp_path):
    path = data.write_conversations(str(tmp_path / "lines.jsonl"), 2, 3, (4, 5, 2), 100)
    with open(path, encoding="utf-8") as file:
        conversations = [json.loads(line)["turns"] for line in file]
    assert [len(turns) for turns in conversations] == [3, 3]
    for first, second, third in conversations:
        assert [len(turn["input_ids"]) for turn in (first, second, third)] == [11, 17, 23]
        answer = first["input_ids"][-2:]
        assert second["input_ids"][:6] == third["input_ids"][:6] == first["input_ids"][:4] + answer
        assert third["labels"] == [-100] * 16 + third["input_ids"][16:]


@pytest.mark.parametrize("name", ["dpo", "sharing", "rollouts", "turns"])
def test_every_program_has_a_help(name):
    done = subprocess.run([sys.executable, os.path.join(FOLDER, name), "--help"], capture_output=True, text=True,
                          check=True, timeout=100)
    assert "--tiny" in done.stdout
