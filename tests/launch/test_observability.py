"""The board and the alerts of launch/observability against a real Prometheus server (Debian package
`prometheus`, launch/setup --lint) that scrapes a real run of four ranks."""

import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(REPO / "tests" / "distributed"))
from runs import PROGRAM, Lab  # noqa: E402

OBSERVABILITY = REPO / "launch" / "observability"
RANKS = 4
SCRAPE_S = 0.5
RATE = "1m"  # what rates are taken over: long, for a scrape may be late
if shutil.which("promtool") is None:
    pytest.skip("prometheus is not there: launch/setup --lint installs it", allow_module_level=True)

# Of exporters that do not run here; their queries are evaluated all the same.
FOREIGN = re.compile(r"\b(DCGM_|node_)")
# Experts, two sources, evaluation sets with names: all that a page can hold.
MODEL = ("model.config={model_type: mixtral, hidden_size: 32, intermediate_size: 48, num_hidden_layers: 2, "
         "num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 512, hidden_act: silu, num_local_experts: 4, "
         "num_experts_per_tok: 2, router_aux_loss_coef: 0.01, output_router_logits: true, "
         "max_position_embeddings: 512, rms_norm_eps: 1.0e-6, tie_word_embeddings: false}")


def promtool(*arguments, **options):
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def two_sources(folder, name, num_examples):
    """A token store of two sources."""
    files = []
    for source in ("one", "two"):
        files.append(folder / f"{name}-{source}.jsonl")
        lines = [{"input_ids": [(7 * line + place) % 512 for place in range(9 + line % 40)]} for line in range(num_examples)]
        files[-1].write_text("".join(json.dumps(line) + "\n" for line in lines))
    store = folder / name
    subprocess.run([PROGRAM, "prepare", "--pretokenized", *map(str, files), "--vocab-size", "512", "--out",
                    str(store)], check=True, capture_output=True, text=True)
    return store


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


class Prometheus:
    """A server with launch/observability's configuration, but for its interval and the places of targets."""

    def __init__(self, folder, targets):
        config = (OBSERVABILITY / "prometheus.yml").read_text()
        config, count = re.subn(r"\[/shared/prometheus/targets/\*\.json\]", f"[{targets}/*.json]", config)
        assert count == 1
        config = re.sub(r"(scrape_interval|evaluation_interval): 15s", rf"\1: {int(SCRAPE_S * 1000)}ms", config)
        (folder / "prometheus.yml").write_text(config)
        shutil.copy(OBSERVABILITY / "alerts.yml", folder)
        self.log = (folder / "prometheus.log").open("w")
        self.process = subprocess.Popen(
            ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
             "--web.listen-address=127.0.0.1:0"], stdout=self.log, stderr=self.log)
        said = self.wait_for("a port", lambda: re.search(r'"Listening on" address=(\S+)\n',
                                                         pathlib.Path(self.log.name).read_text()))
        self.url = f"http://{said[1]}"

    def api(self, path, **parameters):
        return json.loads(get(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"))["data"]

    def query(self, expression):
        """[(labels, value)] now."""
        return [(entry["metric"], float(entry["value"][1])) for entry in
                self.api("query", query=expression)["result"]]

    def wait_for(self, what, condition, seconds=100):
        deadline = time.monotonic() + seconds
        while True:
            try:
                if found := condition():
                    return found
            except OSError:  # not up yet
                pass
            assert time.monotonic() < deadline, f"waited {seconds} s for {what}"
            time.sleep(0.2)

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.log.close()


class Watched:
    """A run of four ranks that continues until a signal stops it, and the server that watches it."""

    def __init__(self, folder):
        lab = Lab(folder)
        targets = folder / "targets"
        targets.mkdir()
        stores = f"data.train={two_sources(folder, 'sources', 40)}"
        sets = f"data.validation={{web: {two_sources(folder, 'web', 4)}, code: {lab.validation_store}}}"
        self.server = Prometheus(folder, targets)
        os.environ["PACKTRAIN_TARGETS_FOLDER"] = str(targets)
        try:
            self.process = lab.start(
                "watched", MODEL, stores, sets, "batch.strategy=padding", "run.max_steps=100000",
                "run.num_epochs=100000", "run.evaluate_steps=8", "checkpoint.save_steps=8", "metrics.serve=true",
                "metrics.last_scrape_timeout_s=100", ranks=RANKS)
        finally:
            del os.environ["PACKTRAIN_TARGETS_FOLDER"]
        self.lab = lab
        self.run = folder / "runs" / "watched"
        try:
            # The metrics of experts, evaluations and comparisons of ranks are there after step 16.
            ready = f"packtrain_step >= 17 and count_over_time(packtrain_step[{RATE}]) >= 4"
            self.server.wait_for("ranks at step 17", lambda: len(self.server.query(ready)) == RANKS, 200)
        except AssertionError:
            self.process.kill()
            print(self.process.communicate()[1])
            raise

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.server.close()


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    watched = Watched(tmp_path_factory.mktemp("watched"))
    yield watched
    watched.close()


def board_queries():
    """(panel, expression) with the board's variables filled in."""
    board = json.loads((OBSERVABILITY / "board.json").read_text())
    filled = {"$run": "watched", "$rank": ".*", "$host": ".*", "$__rate_interval": RATE}
    for panel in board["panels"]:
        for target in panel.get("targets", []):
            expression = target["expr"]
            for name, value in filled.items():
                expression = expression.replace(name, value)
            assert "$" not in expression, expression
            yield panel["title"], expression


def test_the_alert_rules_are_right():
    promtool("check", "rules", OBSERVABILITY / "alerts.yml")
    promtool("check", "config", OBSERVABILITY / "prometheus.yml")
    tested = promtool("test", "rules", REPO / "tests" / "launch" / "alerts_test.yml")
    assert "SUCCESS" in tested
    names = set(re.findall(r"- alert: (\w+)", (OBSERVABILITY / "alerts.yml").read_text()))
    assert names == set(re.findall(r"alertname: (\w+)", (REPO / "tests" / "launch" / "alerts_test.yml").read_text()))


def test_every_rank_is_scraped_and_says_what_it_is(watched):
    found = watched.server.query(f"last_over_time(packtrain_steps_total[{RATE}])")
    assert sorted(labels["rank"] for labels, _ in found) == ["0", "1", "2", "3"]
    assert all(labels["run"] == "watched" and "exported_run" not in labels for labels, _ in found)
    ((labels, value), *_) = watched.server.query(f"last_over_time(packtrain_run_info[{RATE}])")
    assert value == 1 and labels["strategy"] == "padding" and labels["num_ranks"] == "4"
    watched.server.wait_for("scrapes in time of all at once", lambda: [
        value for _, value in watched.server.query('up{job="packtrain"}')] == [1] * RANKS)


def test_promtool_accepts_a_page(watched):
    target = watched.server.api("targets")["activeTargets"]
    url = next(entry["scrapeUrl"] for entry in target if entry["labels"]["job"] == "packtrain")
    page = get(url)
    assert promtool("check", "metrics", input=page) == ""
    names = set(re.findall(r"^# TYPE (\w+) ", page, re.MULTILINE))
    used = {name for _, expression in board_queries() for name in re.findall(r"packtrain_\w+", expression)}
    used |= set(re.findall(r"packtrain_\w+", (OBSERVABILITY / "alerts.yml").read_text()))
    assert {re.sub(r"_(bucket|sum|count)$", "", name) for name in used} - names == set()


def test_a_page_has_no_label_without_bounds(watched):
    values = {}
    for entry in watched.server.api("series", **{"match[]": '{__name__=~"packtrain_.*"}'}):
        for label, value in entry.items():
            values.setdefault(label, set()).add(value)
    assert set(values) == {"__name__", "backend", "config_hash", "device", "expert", "host", "instance", "job",
                           "job_id", "le", "num_ranks", "purpose", "rank", "run", "set", "source", "state",
                           "strategy", "version"} - ({"job_id"} - set(values))
    assert all(len(found) < 64 for label, found in values.items() if label != "__name__"), values


@pytest.mark.parametrize(("panel", "expression"), list(board_queries()))
def test_every_query_of_the_board_finds_the_run(watched, panel, expression):
    watched.server.query(expression)  # is one
    if FOREIGN.search(expression):
        return
    # A rank whose latest scrape took too long is not found until the next.
    watched.server.wait_for(f"{panel}: {expression}", lambda: any(
        math.isfinite(value) for _, value in watched.server.query(expression)))


def test_the_rules_are_evaluated_without_error_and_quiet(watched):
    rules = [rule for group in watched.server.api("rules")["groups"] for rule in group["rules"]]
    assert {rule["health"] for rule in rules} == {"ok"}
    assert [rule["name"] for rule in rules if rule["state"] == "firing" and rule["name"] != "PacktrainSlowRank"] == []


def test_a_stopped_run_removes_its_targets(watched):
    watched.process.send_signal(signal.SIGUSR1)
    _, err = watched.process.communicate(timeout=200)
    assert watched.process.returncode == 75, err
    gone = watched.server.wait_for
    gone("targets to go", lambda: not any(entry["labels"]["job"] == "packtrain" for entry in
                                          watched.server.api("targets")["activeTargets"]))
    assert json.loads((watched.run / "metrics-targets.json").read_text()) == []


def test_a_short_run_is_seen_to_its_end(watched):
    server = watched.server
    targets = server.log.name.replace("prometheus.log", "targets")
    os.environ["PACKTRAIN_TARGETS_FOLDER"] = targets
    try:
        short = watched.lab.run("short", "run.max_steps=2", "metrics.serve=true", "metrics.last_scrape_timeout_s=100",
                                "checkpoint.save_final=false", ranks=RANKS, timeout=300)
    finally:
        del os.environ["PACKTRAIN_TARGETS_FOLDER"]
    found = server.query('last_over_time(packtrain_step{run="short"}[10m])')
    assert sorted((labels["rank"], value) for labels, value in found) == [(str(rank), 2) for rank in range(RANKS)]
    done = server.query('last_over_time(packtrain_run_state{run="short",state="done"}[10m])')
    assert [value for _, value in done] == [1] * RANKS
    assert json.loads((short / "metrics-targets.json").read_text()) == []
    assert os.listdir(targets) == []
