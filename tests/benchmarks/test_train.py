"""benchmarks/train: which cases there are, how sides are started, kept and read, and what the tables
and the soak test conclude."""

import argparse
import json
import os

import pytest

from folders import ROOT, load_script

import cases
import family_cases
import family_peers
import family_report
import paper_cases
import paper_report
import programs
import report
import setting_bench
import shapes
import sides

# Stands in for packtrain-run: writes a record for each step of the run.
TRAINING = """#!/usr/bin/env python3
import json, sys, time
settings = dict(a.split("=", 1) for a in sys.argv if "=" in a)
assert settings["checkpoint.save_final"] == "false"
for step in range(1, int(settings["run.max_steps"]) + 1):
    with open(settings["run.output"] + "/metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "step_time_s": 0.01}) + "\\n")
"""
FAILING = """#!/usr/bin/env python3
import sys
sys.exit("no such config" if "train" in sys.argv else 0)
"""
# Stands in for a peer: prints a row for each number of tokens and fails at 512.
PEER = """#!/usr/bin/env python3
import json, sys
for tokens in map(int, sys.argv[sys.argv.index("--tokens") + 1].split(",")):
    if tokens == 512:
        raise MemoryError("too large")
    print(json.dumps(dict(tokens=tokens, tok_s=2.0 * tokens)), flush=True)
"""


def launcher(tmp_path, monkeypatch, text):
    path = tmp_path / "packtrain-run"
    path.write_text(text)
    path.chmod(0o755)
    monkeypatch.setattr(programs, "LAUNCHER", str(path))


def train_steps(tmp_path, timeout):
    return programs.train_steps("config.yaml", str(tmp_path / "run"), 20, timeout, [])


def test_a_run_gives_the_steps_that_were_asked_for_and_not_its_last(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, TRAINING)
    steps = train_steps(tmp_path, timeout=60)
    assert [step["step"] for step in steps] == list(range(1, 21))


def test_a_failed_run_shows_its_last_lines(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, FAILING)
    with pytest.raises(programs.Failure, match="exit code 1: no such config"):
        train_steps(tmp_path, timeout=60)


def test_a_run_that_takes_too_long_is_ended(tmp_path, monkeypatch):
    launcher(tmp_path, monkeypatch, TRAINING + "time.sleep(60)\n")
    with pytest.raises(programs.Failure, match="longer than 1 s"):
        train_steps(tmp_path, timeout=1)


def step_record():
    return {"step_time_s": 0.5, "tokens_per_second": 4000.0, "num_tokens": 2000,
            "model_tflops_per_device": 400.0, "peak_memory_bytes": 2**31, "loss": 5.0,
            "gather_wait_s": 0.002, "reduce_wait_s": 0.004}


def test_figures_are_those_of_one_gpu():
    figures = programs.summarize_steps([step_record(), step_record()], num_gpus=4)
    assert figures["tok_s"] == figures["tok_s_mean"] == 1000
    assert figures["tokens"] == 500 and figures["peak_gib"] == 2
    assert (figures["gather_wait_ms"], figures["reduce_wait_ms"]) == pytest.approx((2, 4))


def test_paths_are_those_that_the_run_reports(tmp_path):
    log = tmp_path / "log"
    log.write_text("start\ninfo: gathers by copy_engine, reductions by ring\nstep 1/9\n")
    assert programs.logged_paths(log) == "copy_engine, ring"
    log.write_text("step 1/9\n")
    assert programs.logged_paths(log) == ""


def test_every_case_has_a_config_a_shape_and_peers():
    for case in cases.CASES.values():
        assert os.path.exists(os.path.join(ROOT, "configs", case.config))
        shape = shapes.SHAPES[case.shape_arguments()[1]]
        assert shape.vocab == case.vocab_size
        for num_gpus in (1, 4):
            assert set(case.peers_on(num_gpus)) <= set(cases.PEERS)
            assert set(case.variants_on(num_gpus)) <= set(cases.VARIANTS)
    assert set(cases.FASTEST_ON_ONE) | set(cases.FASTEST_ON_SEVERAL) <= set(cases.CASES)


def test_a_case_is_one_full_pack_a_gpu():
    settings = cases.CASES["8b-2048"].overrides(4)
    assert "batch.global_batch_tokens=8192" in settings
    assert "batch.max_tokens_per_micro_batch=2048" in settings
    assert "data.max_length=2048" in settings
    assert "data.max_length=8192" in cases.CASES["8b-16384-full"].overrides(4)


def test_a_peer_measures_cases_of_one_shape_and_documents_together():
    names = ["8b-8192", "8b-16384", "8b-8192-full", "1b-4096", "8b-2048"]
    chosen = [cases.CASES[name] for name in names]
    group = sides.peer_group(chosen[0], "hf-compile", chosen)
    assert [case.name for case in group] == ["8b-16384", "8b-8192", "8b-2048"]
    assert sides.peer_group(chosen[0], "torchtitan", chosen) == chosen[:1]


def test_rows_that_a_peer_printed_before_it_failed_are_kept(tmp_path, monkeypatch):
    (tmp_path / "hf.py").write_text(PEER)
    monkeypatch.setattr(programs, "PEERS", str(tmp_path))
    laboratory = sides.Laboratory(tmp_path, 1, 13, [])
    os.makedirs(tmp_path / "logs")
    group = [cases.Case("1b", tokens) for tokens in (2048, 512, 256)]
    found = laboratory.measure_peer(group, "hf-compile", 60)
    assert found["1b-2048"]["tok_s"] == 4096
    assert found["1b-512"]["error"] == found["1b-256"]["error"] == (
        "exit code 1: MemoryError: too large")


def session(tmp_path, names, **more):
    run = load_script("run")
    arguments = run.argparse.Namespace(
        out=str(tmp_path), again=False, steps=13, timeout=10, settings=[], variants=None,
        peers=None, **more)
    return run.Session(4, [cases.CASES[name] for name in names], arguments, float("inf")), run


def test_what_was_measured_is_kept_and_what_failed_is_tried_again(tmp_path, monkeypatch):
    measured = []

    def measure(self, case, variant, timeout):
        measured.append((case.name, variant))
        if case.name == "1b-4096":
            raise programs.Failure("lost")
        return {"tok_s": 1.0}

    monkeypatch.setattr(sides.Laboratory, "measure_ours", measure)
    for _ in range(2):
        started, _ = session(tmp_path, ["1b-8192", "1b-4096"])
        started.run("ours")
    assert measured == [("1b-8192", "zero3"), ("1b-4096", "zero3"), ("1b-4096", "zero3")]
    assert started.results["1b-4096"]["ours-zero3"]["error"] == "lost"


def test_nothing_is_started_with_too_little_time_left(tmp_path):
    started, run = session(tmp_path, ["1b-8192"])
    started.deadline = run.time.monotonic() + run.SHORTEST_RUN_S - 1
    for side in run.SIDES:
        started.run(side)
    assert started.results == {"1b-8192": {}}


def test_a_peer_that_failed_is_not_tried_again_in_the_same_run(tmp_path, monkeypatch):
    tried = []

    def fail(self, group, name, timeout):
        tried.append([case.name for case in group])
        raise programs.Failure("no such package")

    monkeypatch.setattr(sides.Laboratory, "measure_peer", fail)
    started, _ = session(tmp_path, ["8b-16384", "8b-8192", "8b-4096", "8b-16384-full"])
    started.run("peer")
    assert tried == [["8b-16384", "8b-8192"], ["8b-4096"], ["8b-16384-full"], ["8b-16384-full"]]


def test_the_next_peer_is_measured_where_the_fastest_fails_and_only_there(tmp_path, monkeypatch):
    tried = []

    def measure(self, group, name, timeout):
        tried.append((name, [case.name for case in group]))
        if name == "torchtitan" and group[0].tokens == 8192:
            raise programs.Failure("no such package")
        return {case.name: {"tok_s": 1.0} for case in group}

    monkeypatch.setattr(sides.Laboratory, "measure_peer", measure)
    started, _ = session(tmp_path, ["8b-8192-full", "8b-16384-full"])
    started.run("peer")
    assert tried == [("torchtitan", ["8b-8192-full"]), ("hf-compile-cudnn", ["8b-8192-full"]),
                     ("torchtitan", ["8b-16384-full"])]


def test_the_ratio_to_one_gpu_is_that_of_an_earlier_run(tmp_path, capsys):
    (tmp_path / "1b-4096-x4.json").write_text(json.dumps(RESULTS))
    (tmp_path / "1b-4096-x1.json").write_text(json.dumps({"ours-default": {"tok_s": 80000.0}}))
    started, run = session(tmp_path, ["1b-4096"])
    run.write_table(started.arguments, [started])
    assert "| 0.750 |" in capsys.readouterr().out


RESULTS = {
    "ours-zero3": {"tok_s": 60000.0, "tokens": 4096, "step_s": 0.1, "gather_wait_ms": 0.5,
                   "reduce_wait_ms": 1.5},
    "ours-zero2": {"tok_s": 66000.0, "tokens": 4096},
    "peer-hf-liger": {"tok_s": 30000.0}, "peer-hf-compile": {"error": "out of memory"},
    "chain": {"tok_s": 90000.0, "reference_tok_s": 96000.0}}


def test_the_table_has_a_row_a_variant_with_ratios_and_names_what_failed():
    case = cases.CASES["1b-4096"]
    alone = {"ours-default": {"tok_s": 60000.0, "tokens": 4096, "step_s": 0.1}}
    text = report.markdown([case], [4, 1], {("1b-4096", 4): RESULTS, ("1b-4096", 1): alone})
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines()]
    zero3, zero2, one = (dict(zip(report.COLUMNS, row)) for row in rows[2:5])
    assert (zero3["peer"], zero3["ours / peer"]) == ("hf-liger", "2.00")
    assert (zero3["ours / chain"], zero3["ours / chain at 16k"]) == ("0.667", "0.625")
    assert zero3["waits ms, gather + reduce"] == "0.5 + 1.5"
    assert zero3["% of step"] == "2.0"
    assert (zero2["of 1 GPU"], zero2["% of step"]) == ("1.100", "")
    assert (one["GPUs"], one["of 1 GPU"]) == ("1", "")
    assert "1b-4096, 4 GPUs, peer-hf-compile: out of memory" in text


def test_the_papers_steps_are_examples_or_packs():
    setting = paper_cases.Setting("mistral-7b", "flan", 4)
    assert os.path.exists(setting.config)
    assert "batch.global_batch_size=64" in setting.overrides(paper_cases.SAME_BATCHES)
    assert "batch.global_batch_tokens=65536" in setting.overrides(paper_cases.PACKS)
    for model, (shape, vocab_size, _) in paper_cases.MODELS.items():
        assert shapes.SHAPES[shape].vocab == vocab_size, model


def test_the_families_table_says_what_packing_gains_and_what_failed():
    setting = family_cases.FamilySetting("mistral-1b", 1)
    assert os.path.exists(setting.config)
    ours = {"padding": {"tok_s": 3000.0, "mfu": 0.1},
            "balanced": {"tok_s": 12000.0, "mfu": 0.42, "tflops": 420.0}}
    peer = {"padding": {"tok_s": 2000.0}, "padding_free": {"tok_s": 8000.0}}
    results = {"ours": ours, "peer": peer, "errors": {"peer, balanced": "out of memory"}}
    lines = family_report.markdown([(setting, results)]).splitlines()
    row = dict(zip(family_report.COLUMNS, [cell.strip() for cell in lines[2].split("|")[1:-1]]))
    assert (row["model"], row["balanced / padding"], row["MFU"]) == ("mistral-1b", "4.00", "42.0 %")
    assert (row["balanced / peer's best"], row["ours / peer, padding_free"]) == ("1.50", "")
    assert lines[-1] == "mistral-1b-x1, peer, balanced: out of memory"


def family_bench(tmp_path, model):
    arguments = argparse.Namespace(out=str(tmp_path), strategies=["padding_free", "balanced"])
    os.makedirs(tmp_path / "logs", exist_ok=True)
    return setting_bench.Bench(family_cases.FamilySetting(model, 1), arguments, float("inf"))


def test_rows_of_one_peer_process_go_to_their_models(tmp_path):
    benches = [family_bench(tmp_path, model) for model in ("mistral-1b", "gemma-1b", "olmo-1b")]
    jobs = family_peers.jobs_of(benches, ["padding_free"])
    row = dict(strategy="padding_free", local_accumulation=False, tok_s_mean=9.0)
    rows = [row | {"config": benches[0].setting.config},
            {"config": benches[1].setting.config, "error": "OutOfMemoryError: too large"}]
    family_peers.save_rows(jobs, rows, "took longer than 9 s")
    assert benches[0].results["peer"]["padding_free"]["tok_s_mean"] == 9.0
    errors = [list(bench.results["errors"].values()) for bench in benches]
    assert errors == [[], ["OutOfMemoryError: too large"], ["took longer than 9 s"]]
    again = [family_bench(tmp_path, bench.setting.model) for bench in benches]
    assert [bench for bench, _ in family_peers.jobs_of(again, ["padding_free"])] == again[1:]


def test_a_model_with_fewer_layers_is_a_setting_of_its_own(tmp_path):
    setting = family_cases.FamilySetting("llama-2-7b", 1, 8, str(tmp_path))
    with open(setting.config, encoding="utf-8") as file:
        assert "num_hidden_layers: 8\n" in file.read()
    for name in (setting.name, "mistral-1b-x1", "mistral-1b-x4", "unknown-x1"):
        (tmp_path / f"{name}.json").write_text("{}")
    found = family_cases.measured_settings(str(tmp_path), str(tmp_path))
    assert [each.name for each in found] == ["mistral-1b-x1", setting.name, "mistral-1b-x4"]
    assert found[1] == setting and setting.label == "llama-2-7b, 8 layers"


def test_the_papers_table_compares_balanced_with_what_the_paper_compares():
    ours = {"padding": {"tok_s_mean": 3000.0}, "balanced": {"tok_s_mean": 12000.0}}
    peer = {"padding_free": {"tok_s_mean": 6000.0, "speeds": {"reduced": 5000.0, "local": 6000.0}}}
    setting = paper_cases.Setting("mistral-7b", "flan", 4)
    text = paper_report.markdown([(setting, {"ours": ours, "peer": peer, "errors": {"x": "lost"}})])
    assert "| balanced | 12,000 | 4.00 |  |  | 2.00 |" in text
    assert "2.00 x the peer's padding_free" in text and "x: lost" in text
    assert "padding_free 5,000 reduced after each micro-batch, 6,000 once a step" in text


@pytest.mark.parametrize("growth, flat", [(0, True), (2**20, False)])
def test_the_soak_test_notices_memory_that_grows(growth, flat):
    steps = [{"step": i, "allocated_memory_bytes": 2**27 + growth * i,
              "reserved_memory_bytes": 2**30} for i in range(1, 101)]
    assert load_script("soak").check_growth(steps) == flat
