"""benchmarks/train with packtrain itself, a small model on the CPU."""

import os
import pathlib
import time

import pytest

from folders import ROOT, load_script

import family_cases
import paper_cases
import programs

CONFIG = """
model:
  config: {model_type: mistral, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
           num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 128, sliding_window: null,
           max_position_embeddings: 4096}
data: {train: store}
batch: {global_batch_size: 8}
precision: {compute: fp32, reduce: fp32}
"""
RUN = """#!/usr/bin/env bash
ranks=("${@:1:2}")
exec "%s/launch/packtrain-run" "${ranks[@]}" --program "%s" "${@:3}"
"""


@pytest.fixture
def config(tmp_path, monkeypatch):
    """Path of a config, with `programs` starting the packtrain that was built."""
    program = os.environ["PACKTRAIN_PROGRAM"]
    run = tmp_path / "packtrain-run"
    run.write_text(RUN % (ROOT, program))
    run.chmod(0o755)
    monkeypatch.setattr(programs, "LAUNCHER", str(run))
    monkeypatch.setattr(programs, "PACKTRAIN", program)
    path = tmp_path / "tiny.yaml"
    path.write_text(CONFIG)
    return str(path)


def make_store(tmp_path):
    return programs.prepare_store(str(tmp_path / "stores" / "short"), "lognormal:3,0.5,4,60", 200,
                                  128)


def test_a_run_ends_by_itself_and_leaves_no_checkpoint(tmp_path, config):
    folder = str(tmp_path / "run")
    steps = programs.train_steps(config, folder, 4, 250, [f"data.train={make_store(tmp_path)}"], 2)
    assert [step["step"] for step in steps] == [1, 2, 3, 4]
    figures = programs.summarize_steps(steps, 2)
    assert figures["tok_s"] > 0 and figures["gather_wait_ms"] > 0
    left = [name for _, folders, files in os.walk(folder) for name in folders + files]
    assert "metrics.jsonl" in left
    assert not [name for name in left if name.endswith(".safetensors")]


def processes_of(folder):
    """Their command lines name it; those that have ended have none."""
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path] if folder.encode() in path.read_bytes() else []
        except OSError:  # it ended meanwhile
            continue
    return found


def test_a_run_that_is_interrupted_leaves_no_process(tmp_path, config):
    folder = str(tmp_path / "run")
    with pytest.raises(programs.Failure, match="longer than 4 s"):
        programs.train_steps(config, folder, 10**6, 4, [f"data.train={make_store(tmp_path)}"], 2)
    deadline = time.monotonic() + 100
    while left := processes_of(folder):
        assert time.monotonic() < deadline, left
        time.sleep(0.1)


def test_the_paper_runs_strategies_on_ranks_and_keeps_what_it_has(tmp_path, config, monkeypatch):
    monkeypatch.setitem(paper_cases.MODELS, "tiny", ("tiny", 128, config))
    monkeypatch.setitem(paper_cases.LENGTHS, "flan", "3,0.5")
    paper = load_script("paper")
    arguments = ["paper", "--gpus", "2", "--model", "tiny", "--lengths", "flan", "--sides", "ours",
                 "--steps", "5", "--strategies", "padding,balanced,fixed_length", "--out",
                 str(tmp_path / "out"), "precision.compute=fp32", "precision.reduce=fp32"]
    monkeypatch.setattr(paper.sys, "argv", arguments)
    paper.main()
    table = (tmp_path / "out" / "table.md").read_text()
    assert all(f"| {name} | " in table for name in ("padding", "balanced", "fixed_length"))
    rows = {line.split(" | ")[0]: line.split(" | ") for line in table.splitlines()}
    loss = paper.markdown.__globals__["COLUMNS"].index("loss")
    assert float(rows["| padding"][loss]) == pytest.approx(float(rows["| balanced"][loss]), rel=1e-3), "the same batches"
    monkeypatch.setattr(programs, "LAUNCHER", "/none")
    paper.main()  # starts nothing
    assert (tmp_path / "out" / "table.md").read_text() == table


def test_the_paper_measures_both_ways_to_accumulate(tmp_path, config, monkeypatch):
    monkeypatch.setitem(paper_cases.MODELS, "tiny", ("tiny", 128, config))
    monkeypatch.setitem(paper_cases.LENGTHS, "flan", "3,0.5")
    paper = load_script("paper")
    arguments = ["paper", "--gpus", "2", "--model", "tiny", "--lengths", "flan", "--sides", "shard,local", "--steps", "5",
                 "--strategies", "padding_free", "--out", str(tmp_path / "out"), "precision.compute=fp32",
                 "precision.reduce=fp32"]
    monkeypatch.setattr(paper.sys, "argv", arguments)
    paper.main()
    [row] = [line.split(" | ") for line in (tmp_path / "out" / "table.md").read_text().splitlines()
             if line.startswith("| padding_free | ")]
    shard, local, ratio = (float(row[column].replace(",", "")) for column in (1, 2, 4))
    assert ratio == pytest.approx(local / shard, abs=0.01)
    assert row[-2] == row[-1].removesuffix(" |"), "the same batches"


def test_families_are_measured_and_kept(tmp_path, config, monkeypatch):
    monkeypatch.setattr(family_cases, "FOLDER", os.path.dirname(config))
    families = load_script("families")
    arguments = ["families", "--models", "tiny", "--sides", "ours", "--steps", "5", "--out",
                 str(tmp_path / "out")]
    monkeypatch.setattr(family_cases, "LONGEST", 60)
    monkeypatch.setattr(family_cases, "VOCAB_SIZE", 128)
    monkeypatch.setattr(families.sys, "argv", arguments)
    assert family_cases.models_for(1, str(tmp_path)) == ["tiny"]
    assert not family_cases.models_for(4, str(tmp_path))
    families.main()
    row = (tmp_path / "out" / "table.md").read_text().splitlines()[2].split(" | ")
    columns = families.markdown.__globals__["COLUMNS"]
    rates = [float(row[columns.index(f"{name} tok/s/GPU")].replace(",", ""))
             for name in families.STRATEGIES]
    assert min(rates) > 0
    monkeypatch.setattr(programs, "LAUNCHER", "/none")
    families.main()  # starts nothing
    assert (tmp_path / "out" / "table.md").read_text().splitlines()[2].split(" | ") == row
