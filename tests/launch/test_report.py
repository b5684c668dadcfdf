"""packtrain report on real runs of a tiny model: what the file holds."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "launch" / "python"))

from packtrain_tools.report_charts import Chart, Line, draw, tick_labels  # noqa: E402

PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
CONFIG = """
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 1,
           num_attention_heads: 2, num_key_value_heads: 1, vocab_size: 512,
           max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: true}
data: {train: STORE, validation: STORE, max_length: 256}
batch: {global_batch_size: 12, micro_batch_size: 3, max_tokens_per_micro_batch: 1024}
precision: {compute: fp32, reduce: fp32}
metrics: {serve: false}
checkpoint: {save_final: false}
run: {output: OUTPUT, max_steps: 5}
"""


def packtrain(*arguments, exit_code=0, cwd=None):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True, text=True,
                          timeout=250, cwd=cwd, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == exit_code, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two strategies on two ranks: their folders."""
    folder = tmp_path_factory.mktemp("report")
    packtrain("prepare", "--synthetic", "lognormal:3.7,0.9,4,200", "--examples", 60, "--vocab-size",
              512, "--out", folder / "store")
    made = {}
    for strategy in ("padding", "balanced"):
        made[strategy] = folder / "runs" / strategy
        config = folder / f"{strategy}.yaml"
        config.write_text(CONFIG.replace("STORE", str(folder / "store"))
                          .replace("OUTPUT", str(made[strategy])))
        done = subprocess.run([REPO / "launch" / "packtrain-run", "-n", "2", "--program", PROGRAM,
                               config, f"batch.strategy={strategy}", "samples.steps=2",
                               "samples.max_new_tokens=4"], capture_output=True,
                              text=True, timeout=200, check=False)
        assert done.returncode == 0, done.stderr
    return made


class Outline(HTMLParser):
    """Headings, cells and counts of elements; every element that is opened is closed."""

    VOID = frozenset({"meta", "link", "br"})

    def __init__(self, text):
        super().__init__()
        self.open, self.counts, self.headings, self.attributes = [], {}, [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes += attributes
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.counts[tag] = self.counts.get(tag, 0) + 1
        self.attributes += attributes

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, text):
        if self.open and self.open[-1] in ("h1", "h2", "h3"):
            self.headings.append(text.strip())


def report(tmp_path, *folders):
    out = tmp_path / "report.html"
    packtrain("report", *folders, "--out", out)
    return out.read_text()


def test_a_report_of_two_runs_has_every_section(runs, tmp_path):
    text = report(tmp_path, *runs.values())
    outline = Outline(text)
    for heading in ("Over the steps", "Where the time goes", "How steps are packed",
                    "Lengths of examples", "Planned memory", "Configuration differences"):
        assert heading in outline.headings
    for chart in ("Training loss", "Validation loss", "Throughput", "Peak memory", "Padding",
                  "Cost imbalance", "Waiting for communication"):
        assert f"<figcaption>{chart}" in text
    assert re.search(r'<td class="text">batch.strategy</td><td class="text long">padding</td>'
                     r'<td class="text long">balanced</td>', text)


def test_it_needs_nothing_but_itself(runs, tmp_path):
    text = report(tmp_path, *runs.values())
    assert "http:" not in text and "https:" not in text
    assert "url(" not in text and "@import" not in text and "src=" not in text
    assert re.findall(r'href="([^"]*)"', text) == ["data:,"]


def test_the_packing_is_the_plans(runs, tmp_path):
    text = report(tmp_path, *runs.values())
    plan, _ = packtrain("plan", runs["padding"] / "config.yaml", "--json", "--steps", 3, "--ranks", 2)
    step = json.loads(plan)["steps"][0]
    num_tokens = sum(piece[2] for rank in step["ranks"] for batch in rank for piece in batch)
    num_rows = sum(map(sum, step["rows"]))
    pictures = re.findall(r'<svg class="packing".*?</svg>', text, re.DOTALL)
    assert len(pictures) == 2 * 3
    assert f"Step 1: {num_tokens:,} tokens on 2 ranks in {len(step['rows'][0])} micro-batches" in text
    pads = [int(rows) for rows in re.findall(r"padding: (\d+) rows", pictures[0])]
    lengths = [int(tokens) for tokens in re.findall(r": (\d+) tokens", pictures[0])]
    assert sum(pads) == num_rows - num_tokens > 0
    assert sum(lengths) == num_tokens


def test_continuations_are_those_of_the_run(runs, tmp_path):
    text = report(tmp_path, runs["balanced"])
    lines = (runs["balanced"] / "samples.jsonl").read_text().splitlines()
    samples = [json.loads(line) for line in lines]
    assert {sample["step"] for sample in samples} == {2, 4, 5}
    assert "What the model writes" in Outline(text).headings
    for sample in samples:
        written = "".join(f"{token} " for token in sample["continuation"])
        assert f'<td class="text">step {sample["step"]}</td><td class="text long">{written}</td>' in text
    assert text.count("the example itself") == len(samples) / 3


def test_one_run_is_reported_in_its_own_folder(runs):
    out, _ = packtrain("report", runs["balanced"])
    assert out.strip() == str(runs["balanced"] / "report.html")
    text = (runs["balanced"] / "report.html").read_text()
    assert "Configuration differences" not in text and "hidden_size" in text


def test_without_the_data_the_rest_is_there(runs, tmp_path):
    moved = tmp_path / "moved"
    shutil.copytree(runs["balanced"], moved)
    config = moved / "config.yaml"
    config.write_text(re.sub(r"train: .*", "train: /nowhere", config.read_text()))
    text = report(tmp_path, moved)
    assert "Not shown: packtrain: data error" in text and "/nowhere" in text
    assert "Training loss" in text and 'class="packing"' not in text


def test_a_run_that_has_just_begun_and_bad_numbers_do_no_harm(runs, tmp_path):
    begun, bad = tmp_path / "begun", tmp_path / "bad <b>&\"name\""
    for folder in (begun, bad):
        shutil.copytree(runs["balanced"], folder)
    (begun / "metrics.jsonl").unlink()
    lines = (bad / "metrics.jsonl").read_text().splitlines()
    record = json.loads(lines[1]) | {"loss": None, "num_skipped_steps": 1, "num_failed_saves": 2}
    lines[1] = json.dumps(record)
    (bad / "metrics.jsonl").write_text("\n".join(lines) + '\n{"step": 6, "los')
    text = report(tmp_path, begun, bad)
    outline = Outline(text)
    assert "<b>&" not in text.replace("<b>&amp;", "")
    assert "1 updates were refused" in text and "2 saves failed" in text
    points = [value for name, value in outline.attributes if name == "points"]
    assert len(points) > 5 and not any("nan" in value for value in points)


def test_what_is_no_run_is_named(tmp_path):
    _, errors = packtrain("report", tmp_path, exit_code=65)
    assert errors.startswith(f"packtrain report: {tmp_path}: is no folder of a run")
    packtrain("report", exit_code=64)
    (tmp_path / "config.yaml").write_text("run:\n  seed: 0\n")
    (tmp_path / "metrics.jsonl").write_text("{}\nnonsense\n")
    _, errors = packtrain("report", tmp_path, exit_code=65)
    assert "metrics.jsonl:2: is no line of metrics" in errors


def test_ticks_that_lie_close_have_labels_of_their_own():
    assert tick_labels([1.0, 1.0002, 1.0004]) == ["1", "1.0002", "1.0004"]
    assert tick_labels([0.0, 50000.0, 100000.0]) == ["0", "50k", "100k"]
    assert tick_labels([2.5]) == ["2.5"]


def test_steps_are_whole():
    drawn = draw(Chart("Validation loss", "nats", [Line("run", [(46.0, 7.6)], 0)]))
    assert ">46<" in drawn and not re.search(r">4[56]\.", drawn)
