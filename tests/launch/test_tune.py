"""`packtrain tune`: from a model and data to an exported model or adapter, in one command."""

import json
import os
import re
import shutil
import signal
import subprocess
import time

import datasets
import pytest
import yaml
from tiny_model import PROGRAM, environment, hub_with, make_model, packtrain, write_conversations

from packtrain_tools import prepared  # on the path by tiny_model
from packtrain_tools.tuning import stores

FAST = ["optimizer.learning_rate=1e-2", "run.num_epochs=4", "metrics.serve=false"]
LOSSES = re.compile(r"validation loss: ([\d.]+) before, ([\d.]+) after, ([\d.]+) at best")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tune")
    make_model(folder / "model")
    texts = [json.dumps({"text": f"The number after {number} is {number + 1}."}) for number in range(80)]
    (folder / "texts.jsonl").write_text("\n".join(texts) + "\n")
    return folder


def tune(folder, *words, model="model", data="texts.jsonl", code=0, **more):
    return packtrain("tune", model, data, *words, cwd=folder, code=code, **more)


@pytest.fixture(scope="module")
def whole(folder):
    return tune(folder, "--out", "whole", *FAST)


@pytest.fixture(scope="module")
def adapter(folder):
    return tune(folder, "--out", "lora", "--lora", *FAST)


@pytest.mark.parametrize("kind", ["whole", "adapter"])
def test_the_loss_on_held_out_data_falls(kind, request):
    before, after, best = map(float, LOSSES.search(request.getfixturevalue(kind).stdout).groups())
    assert best <= after < before


def test_a_model_is_written_that_transformers_loads(folder, whole):
    import torch
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(folder / "whole" / "model", dtype=torch.float32)
    base = transformers.AutoModelForCausalLM.from_pretrained(folder / "model", dtype=torch.float32)
    assert not torch.equal(model.model.norm.weight, base.model.norm.weight)
    assert transformers.AutoTokenizer.from_pretrained(folder / "whole" / "model").chat_template


def test_an_adapter_is_written_that_peft_loads(folder, adapter):
    peft = pytest.importorskip("peft")
    import transformers

    base = transformers.AutoModelForCausalLM.from_pretrained(folder / "model")
    model = peft.PeftModel.from_pretrained(base, folder / "lora" / "adapter")
    assert model.peft_config["default"].r == 16


@pytest.mark.parametrize("out, kind", [("whole", "whole"), ("lora", "adapter")])
def test_what_is_written_at_the_end_can_be_run(folder, out, kind, request):
    lines = re.findall(r"^  packtrain (.+)$", request.getfixturevalue(kind).stdout, re.MULTILINE)
    assert [line.split()[0] for line in lines] == ["chat", "report", *(["export"] if kind == "adapter" else []), "push"]
    for line in lines:
        words = line.split() + (["--prompt", "a", "--device", "cpu", "--max-new-tokens", "4"] if line[:4] == "chat" else [])
        packtrain(*words, cwd=folder)


def test_the_merged_model_has_the_end_tokens_of_the_data(folder):
    write_conversations(folder / "turns.jsonl")
    done = tune(folder, "--out", "turns", "--lora", *FAST, "run.max_steps=1", data="turns.jsonl")
    packtrain(*re.search(r"^  packtrain (export .+)$", done.stdout, re.MULTILINE).group(1).split(), cwd=folder)
    added = json.loads((folder / "model" / "tokenizer.json").read_text())["added_tokens"]
    end = next(token["id"] for token in added if token["content"] == "<|end|>")
    configs = [json.loads((folder / place / "config.json").read_text()) for place in ("model", "turns/merged")]
    assert [config["eos_token_id"] for config in configs] == [0, [0, end]]


def test_its_configuration_is_one_of_train(folder, whole):
    config = yaml.safe_load((folder / "whole" / "config.yaml").read_text())
    assert config["run"]["num_epochs"] == 4  # of the command line
    assert config["optimizer"]["learning_rate"] == "1e-2"  # as text, which YAML 1.2 reads as a number
    assert config["model"]["path"] == "model" and config["memory"]["fit"] == "auto"
    packtrain("train", "whole/config.yaml", "run.output=again", cwd=folder)
    lines = [(folder / run / "metrics.jsonl").read_text().splitlines() for run in ("whole/run", "again")]
    losses = [[json.loads(line).get("validation_loss") for line in one] for one in lines]
    assert losses[0] == losses[1]


def test_a_second_call_uses_what_is_there(folder, whole):
    before = {path: path.stat().st_mtime_ns for path in (folder / "whole").rglob("*.safetensors")}
    done = tune(folder, "--out", "whole", *FAST)
    assert done.stdout == whole.stdout
    assert {path: path.stat().st_mtime_ns for path in (folder / "whole").rglob("*.safetensors")} == before
    assert "tokens (" not in done.stderr  # the summary of `prepare`


def test_other_values_need_another_folder(folder, whole):
    said = tune(folder, "--out", "whole", *FAST, "run.seed=1", code=64).stderr
    assert "whole: was begun with other values of run.seed" in said


def test_stores_can_be_shared(folder, whole):
    shared = ["--stores", "whole/stores"]
    done = tune(folder, "--out", "third", *shared, *FAST, "run.max_steps=1")
    assert "tokens (" not in done.stderr and not (folder / "third" / "stores").exists()


def test_other_data_or_options_make_other_stores(folder, whole):
    (folder / "more.jsonl").write_text((folder / "texts.jsonl").read_text() + '{"text": "More."}\n')
    for number, words in enumerate([("more.jsonl",), ("texts.jsonl", "--prepare", "--min-length 2 --samples 0"),
                                    ("texts.jsonl", "--prepare", "--validation-examples 9")]):
        tune(folder, "--out", f"other-{number}", "--stores", "shared", *words[1:], *FAST, "run.max_steps=1", data=words[0])
        assert len(list((folder / "shared").iterdir())) == number + 1


def test_a_data_set_of_the_hub_is_known_by_its_fingerprint(folder, tmp_path, monkeypatch):
    rows = datasets.Dataset.from_list([{"text": f"Text {number}."} for number in range(60)])
    started = []
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: rows)
    monkeypatch.setattr(prepared, "run_program", lambda _program, words: started.append(words))
    for fingerprint in ("one", "one", "two"):
        rows._fingerprint = fingerprint
        stores.prepare_stores("packtrain", ["hf:example/texts"], str(folder / "model"), [], str(tmp_path))
    assert started[0] == started[1] and started[1] != started[2]
    assert started[0][started[0].index("--validation-examples") + 1] == "3"  # a twentieth


@pytest.mark.parametrize("lines, held_out", [(5, 1), (100, 5)])
def test_a_twentieth_of_small_data_is_held_out(folder, tmp_path, monkeypatch, lines, held_out):
    started = []
    monkeypatch.setattr(prepared, "run_program", lambda _program, words: started.append(words))
    (tmp_path / "texts.jsonl").write_text("".join(f'{{"text": "{number}"}}\n' for number in range(lines)))
    stores.prepare_stores("packtrain", [str(tmp_path / "texts.jsonl")], str(folder / "model"), [], str(tmp_path))
    assert started[0][started[0].index("--validation-examples") + 1] == str(held_out)


def test_a_share_of_more_data_is_held_out(folder, tmp_path, monkeypatch):
    started = []
    monkeypatch.setattr(prepared, "run_program", lambda _program, words: started.append(words))
    (tmp_path / "texts.jsonl").write_text('{"text": "abcdefgh"}\n' * 60_000)
    stores.prepare_stores("packtrain", [str(tmp_path / "texts.jsonl")], str(folder / "model"), [], str(tmp_path))
    assert started[0][started[0].index("--validation-fraction") + 1] == "0.05"


def test_a_stopped_call_continues(folder):
    words = ["tune", "model", "texts.jsonl", "--out", "stopped", *FAST, "run.num_epochs=300", "checkpoint.save_steps=0",
             "run.evaluate_steps=0.5"]
    log = folder / "stopped.log"
    with open(log, "w") as stream:
        job = subprocess.Popen([PROGRAM, *words], cwd=folder, env=environment(), stderr=stream, stdout=stream)
        end = time.monotonic() + 120
        while "step 1/" not in log.read_text() and time.monotonic() < end:
            time.sleep(0.05)
        job.send_signal(signal.SIGINT)
        assert job.wait(timeout=120) == 75, log.read_text()
    kept = re.search(r"Kept: stopped/stores and (stopped/run/checkpoints/step-\d+). The same command continues",
                     log.read_text())
    assert kept and (folder / kept[1] / "manifest.json").exists(), log.read_text()
    steps = [json.loads(line)["step"] for line in (folder / "stopped/run/metrics.jsonl").read_text().splitlines()]
    assert not (folder / "stopped" / "model").exists()
    (folder / "stopped.log").unlink()
    done = packtrain(*words, cwd=folder)
    assert "resumed" in done.stderr or "continue" in done.stderr
    after = [json.loads(line)["step"] for line in (folder / "stopped/run/metrics.jsonl").read_text().splitlines()]
    assert after[:len(steps)] == steps and len(after) > len(steps)
    assert (folder / "stopped" / "model").exists()


def test_conversations_are_answered_as_they_were_trained(folder):
    write_conversations(folder / "chats.jsonl")
    tune(folder, "--out", "talker", "optimizer.learning_rate=1e-2", "run.num_epochs=30", "checkpoint.keep_best=0",
         "metrics.serve=false", "--prepare", "--seed 1", data="chats.jsonl")
    learned = json.loads((next((folder / "talker/stores").iterdir()) / "validation/store.json").read_text())
    answers = [packtrain("chat", "talker/model", "--prompt", word, "--device", "cpu", cwd=folder).stdout
               for word in ("ping", "one", "red", "up")]
    right = sum(answer == f"{good}\n" for answer, good in zip(answers, ("pong", "two", "green", "down")))
    assert right >= 3 and learned["num_examples"] == 8  # one of the four turns is held out


@pytest.fixture
def hub(folder, tmp_path):
    return hub_with(folder / "model", tmp_path)


def test_a_model_of_the_hub_is_taken_from_the_cache(folder, hub):
    tune(folder, "--out", "of-hub", *FAST, "run.max_steps=1", model="hf:example/tiny", **hub)
    assert "snapshots" in yaml.safe_load((folder / "of-hub" / "config.yaml").read_text())["model"]["path"]


def test_a_tokenizer_of_the_hub_makes_the_store_of_its_folder(folder, hub):
    for name, out in (("hf:example/tiny", "hub-store"), ("model", "folder-store")):
        packtrain("prepare", "texts.jsonl", "--tokenizer", name, "--out", out, cwd=folder, **hub)
    shards = [[part.read_bytes() for part in sorted((folder / out).glob("part-*"))]
              for out in ("hub-store", "folder-store")]
    assert shards[0] and shards[0] == shards[1]


def test_a_tokenizer_that_is_not_in_the_cache_is_named(folder, hub):
    said = packtrain("prepare", "texts.jsonl", "--tokenizer", "hf:example/other", "--out", "x", cwd=folder, code=65, **hub)
    assert "hf:example/other: cannot be loaded" in said.stderr and "Traceback" not in said.stderr


def test_a_model_that_is_not_in_the_cache_is_named(folder, hub):
    said = tune(folder, "--out", "x", model="hf:example/other", code=65, **hub).stderr
    assert "hf:example/other: cannot be loaded" in said and "HF_HOME" in said


@pytest.mark.parametrize("words, code, what", [
    (["nowhere", "texts.jsonl"], 64, "nowhere: is no model"),
    (["hf:tiny", "texts.jsonl"], 64, "is no name of a model"),
    (["model", "nowhere.jsonl"], 64, "nowhere.jsonl: there is no such file"),
    (["model", "run.seed=1"], 64, "got no DATA"),
    (["model", "empty.jsonl"], 65, "no data is there"),
    (["model", "bad.jsonl"], 65, "bad.jsonl:1"),
    (["model", "texts.jsonl", "run.sede=1"], 64, "Did you mean run.seed?"),
    (["model", "texts.jsonl", "run.seed=[1"], 64, "the value is no YAML"),
    (["model", "texts.jsonl", "run.seed.x=1", "run.seed=2", "run.seed.y=1"], 64, "seed has no keys"),
    (["model", "texts.jsonl", "--prepare", "'"], 64, "--prepare: No closing quotation"),
    (["model", "texts.jsonl", "--prepare=--such"], 64, "unknown option --such"),
    (["model", "texts.jsonl", "--ranks", "0"], 64, "--ranks is 0"),
    (["model", "texts.jsonl", "--loro"], 64, "did you mean --lora?"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_wrong_calls_are_refused_in_words(folder, words, code, what):
    (folder / "empty.jsonl").write_text("")
    (folder / "bad.jsonl").write_text("{not json\n")
    assert what in packtrain("tune", *words, "--out", "wrong", cwd=folder, code=code).stderr
    assert not (folder / "wrong" / "run").exists()
    shutil.rmtree(folder / "wrong", ignore_errors=True)


def test_two_calls_in_one_folder_do_not_meet(folder, whole):
    import fcntl
    with open(folder / "whole" / ".lock", "w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        assert "another tune is at work" in tune(folder, "--out", "whole", *FAST, code=64).stderr


def test_several_ranks_train_it(folder):
    if not shutil.which("mpirun"):
        pytest.skip("there is no mpirun")
    tune(folder, "--out", "ranks", "--ranks", "2", *FAST, "run.max_steps=2")
    assert "2 ranks on cpu" in (folder / "ranks/run/log/rank-0.log").read_text()
    assert os.path.isdir(folder / "ranks" / "model")
