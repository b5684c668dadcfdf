"""packtrain compare: a table that agrees with itself, strategies that agree with each other."""

import csv
import json

import pytest

STRATEGIES = ["padding", "padding_free", "balanced"]


def compare(lab, name, *words, ranks=2, config=None):
    return lab.start(name, *words, ranks=ranks, command="compare", config=config)


@pytest.fixture(scope="session")
def compared(lab):
    """(output folder, standard output) of three strategies on two ranks."""
    code, out, err = lab.finish(compare(lab, "compared", "--strategies", ",".join(STRATEGIES)))
    assert code == 0, err
    return lab.folder / "runs" / "compared", out


def read_csv(folder):
    with open(folder / "compare.csv", encoding="utf-8") as stream:
        return {row["strategy"]: row for row in csv.DictReader(stream)}


def test_text_csv_markdown_json_and_plot_hold_the_same_strategies(compared):
    folder, out = compared
    rows = read_csv(folder)
    assert list(rows) == STRATEGIES
    markdown = (folder / "compare.md").read_text().splitlines()
    for number, name in enumerate(STRATEGIES):
        row = rows[name]
        cells = [cell.strip() for cell in markdown[2 + number].strip("|").split("|")]
        assert cells[0] == name
        assert cells[1] == f"{float(row['tokens_per_second_per_device']):.0f}"
        assert cells[4] == row["num_steps"] == "20"
        assert cells[9] == f"{float(row['validation_loss']):.4f}"
        assert out.splitlines()[1 + number].split() == cells
    json_rows = json.loads((folder / "compare.json").read_text())["strategies"]
    for row in json_rows:
        assert row["speedup"]["mean"] == pytest.approx(float(rows[row["strategy"]]["speedup"]))
    assert (folder / "compare.svg").read_text().count("<polyline") == 2 * len(STRATEGIES)


def test_the_same_batches_give_equal_losses_at_equal_steps(compared):
    rows = read_csv(compared[0])
    for key in ("training_loss", "validation_loss", "validation_loss_at_equal_steps"):
        values = [float(row[key]) for row in rows.values()]
        assert max(values) - min(values) < 1e-4, key
    padding = [float(rows[name]["padding_fraction"]) for name in STRATEGIES]
    assert padding[0] > padding[1] > padding[2]
    assert float(rows["padding"]["speedup"]) == 1


def test_losses_are_those_of_the_run_alone(lab, compared):
    from runs import losses

    alone = lab.run("balanced-alone", "run.seed=5", "run.evaluate_steps=2", ranks=2)
    assert losses(compared[0] / "balanced-seed-5") == losses(alone)


def test_finished_runs_are_not_trained_again(lab, compared):
    folder, _ = compared
    written = {path: path.stat().st_mtime_ns for path in folder.glob("*/metrics.jsonl")}
    before = (folder / "compare.csv").read_text()
    config = lab.folder / "compared.yaml"
    code, _, err = lab.finish(compare(lab, "compared", "--strategies", ",".join(STRATEGIES),
                                      config=config))
    assert code == 0, err
    assert err.count("finished before") == len(STRATEGIES)
    assert {path: path.stat().st_mtime_ns for path in folder.glob("*/metrics.jsonl")} == written
    assert (folder / "compare.csv").read_text() == before


def test_other_settings_are_not_mixed_in(lab, compared):
    config = lab.folder / "compared.yaml"
    code, _, err = lab.finish(compare(lab, "compared", "optimizer.learning_rate=1e-3",
                                      "--strategies", "padding", config=config))
    assert code == 64
    assert "other settings" in err
    code, _, err = lab.finish(compare(lab, "compared", "--strategies", "padding", ranks=1,
                                      config=config))
    assert code == 64
    assert "2 ranks" in err


def test_a_stopped_comparison_resumes(lab):
    """In its second run: the first one, of long packs, never gets to step 20."""
    words = ["--strategies", "multipack,balanced", "run.max_steps=null", "run.num_epochs=3", "fault.kind=stop",
             "fault.step=20"]
    code, _, err = lab.finish(compare(lab, "stopped", *words, ranks=1))
    assert code == 75 and "injected on rank 0 at step 20" in err, err
    code, _, err = lab.finish(compare(lab, "stopped", *words, ranks=1,
                                      config=lab.folder / "stopped.yaml"))
    assert code == 0, err
    assert "finished before" in err and "resumed from" in err
    rows = read_csv(lab.folder / "runs" / "stopped")
    assert int(rows["multipack"]["num_steps"]) < 20 and rows["balanced"]["num_steps"] == "45"


def test_what_cannot_be_planned_stops_before_anything_is_trained(lab):
    code, _, err = lab.finish(compare(lab, "unplannable", "--strategies", "balanced,padding",
                                      "batch.max_tokens_per_micro_batch=512",
                                      "batch.micro_batch_size=16"))
    assert code == 64
    assert "strategy padding: " in err
    assert not (lab.folder / "runs" / "unplannable").exists()
    code, _, err = lab.finish(compare(lab, "unknown", "--strategies", "balanced,paddingfree"))
    assert code == 64
    assert "strategy paddingfree: " in err


def test_without_python_everything_but_the_plot_is_there(lab, monkeypatch):
    monkeypatch.setenv("PACKTRAIN_PYTHON", "/nowhere/python3")
    code, out, err = lab.finish(compare(lab, "no-python", "--strategies", "balanced",
                                        "run.max_steps=2", ranks=1))
    assert code == 0, err
    folder = lab.folder / "runs" / "no-python"
    assert "packtrain compare --plot" in err
    assert out.splitlines()[1].startswith("balanced")
    assert (folder / "compare.csv").exists() and not (folder / "compare.svg").exists()


def seconds_to(target, run):
    """Where straight lines between evaluations first reach the target."""
    points = [(point["device_seconds"], point["validation_loss"]) for point in run["evaluations"]]
    for before, after in zip([points[0], *points], points):
        if after[1] <= target:
            share = 0 if after is before else (before[1] - target) / (before[1] - after[1])
            return before[0] + share * (after[0] - before[0])
    return None


def test_values_of_another_key_are_compared_in_pairs_of_seeds(lab):
    rates = ["3e-3", "1e-4"]
    words = ["--vary", f"optimizer.learning_rate={','.join(rates)}", "--seeds", "5,9", "run.max_steps=8", "--json"]
    code, out, err = lab.finish(compare(lab, "varied", *words, ranks=1))
    assert code == 0, err
    report = json.loads(out)
    final = {(run["strategy"], run["seed"]): run["evaluations"][-1]["validation_loss"] for run in report["runs"]}
    assert set(final) == {(rate, seed) for rate in rates for seed in (5, 9)}
    differences = [final["1e-4", seed] - final["3e-3", seed] for seed in (5, 9)]
    first, second = report["strategies"]
    assert first["difference_to_first"]["validation_loss"] is None
    found = second["difference_to_first"]["validation_loss"]
    assert found["mean"] == pytest.approx(sum(differences) / 2)
    # Of two differences a and b, s / sqrt(2) is |a - b| / 2; t(0.975, 1) is 12.7062 and t(0.8, 1) 1.3764.
    error = abs(differences[0] - differences[1]) / 2
    assert found["half_interval_95"] == pytest.approx(12.7062 * error, rel=1e-4)
    assert found["smallest_detectable"] == pytest.approx((12.7062 + 1.3764) * error, rel=1e-4)
    assert first["seconds_to_target"] is None
    folder = lab.folder / "runs" / "varied"
    assert (folder / "learning_rate-3e-3-seed-9" / "metrics.jsonl").exists()
    assert "optimizer.learning_rate" in (folder / "compare.md").read_text().splitlines()[0]


def test_the_time_to_a_loss_is_where_all_seeds_have_reached_it(lab):
    words = ["--strategies", "padding,balanced", "--seeds", "2", "run.max_steps=10", "--json"]
    code, out, err = lab.finish(compare(lab, "reached", *words, ranks=1))
    assert code == 0, err
    padding = [run for run in json.loads(out)["runs"] if run["strategy"] == "padding"]
    target = max(min(point["validation_loss"] for point in run["evaluations"]) for run in padding)
    config = lab.folder / "reached.yaml"
    code, out, err = lab.finish(compare(lab, "reached", *words, "--target-loss", repr(target), ranks=1, config=config))
    assert code == 0, err
    report = json.loads(out)
    assert report["target_loss"] == target
    for figures in report["strategies"]:
        seconds = [seconds_to(target, run) for run in report["runs"] if run["strategy"] == figures["strategy"]]
        found = figures["seconds_to_target"]
        assert None in seconds if found is None else found["mean"] == pytest.approx(sum(seconds) / 2)
    assert report["strategies"][0]["seconds_to_target"]["mean"] > 0


def test_a_key_that_a_comparison_sets_itself_does_not_vary(lab):
    code, _, err = lab.finish(compare(lab, "fixed-key", "--vary", "run.seed=1,2"))
    assert code == 64 and "run.seed cannot vary" in err, err
    code, _, err = lab.finish(compare(lab, "fixed-key", "--vary", "optimizer.learning_rate=1e-3,high"))
    assert code == 64 and "high" in err, err
    assert not (lab.folder / "runs" / "fixed-key").exists()
