"""`packtrain score --log-probs` in parts: a stopped command loses at most one of them. Stores of groups are scored."""

import json
import signal
import subprocess
import time

import numpy as np
import pytest
from safetensors.numpy import load_file
from tiny_model import PATIENCE_S, PROGRAM, environment, make_model, packtrain

FLOAT32 = ("precision.compute=fp32", "precision.reduce=fp32", "data.max_length=64", "batch.max_tokens_per_micro_batch=64")
ONE_BY_ONE = ("--part-tokens", "1")  # each part has one example, or one pair
NUM_PAIRS = 150


def text(number):
    return f"ping {number} " * (1 + number % 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("score_parts")
    make_model(folder / "model")
    make_model(folder / "other", seed=1)
    with open(folder / "pairs.jsonl", "w", encoding="utf-8") as pairs, \
            open(folder / "plain.jsonl", "w", encoding="utf-8") as plain:
        for number in range(NUM_PAIRS):
            answers = {"chosen": text(number), "rejected": f"down {number}"}
            print(json.dumps({"prompt": "up", **answers}), file=pairs)
            for answer in answers.values():
                print(json.dumps({"prompt": "up", "completion": answer}), file=plain)
    for name in ("pairs", "plain"):
        packtrain("prepare", f"{name}.jsonl", "--tokenizer", "model", "--out", name, cwd=folder)
    score(folder, "model", "pairs", *ONE_BY_ONE, "--out", "whole.safetensors")
    return folder


def score(folder, *words, code=0):
    return packtrain("score", *words, "--log-probs", *FLOAT32, cwd=folder, code=code)


def parts_of(folder, name):
    return sorted(folder.glob(f"{name}.part-*"), key=lambda path: int(path.name.split("-")[-2]))


def stop_after_parts(folder, name, number, *words):
    """Kills a command when it has written `number` parts, and returns those that it left."""
    command = subprocess.Popen([PROGRAM, "score", *words, "--log-probs", *FLOAT32, *ONE_BY_ONE, "--out", name], cwd=folder,
                               env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE_S
    while len(parts_of(folder, name)) < number and command.poll() is None and time.monotonic() < end:
        time.sleep(0.001)
    command.send_signal(signal.SIGKILL)
    command.wait()
    found = parts_of(folder, name)
    assert len(found) >= number, "the command ended before it could be stopped"
    return found


def scored(folder, *words):
    """The set of `score --json`, and standard error."""
    done = score(folder, *words, "--json")
    return json.loads(done.stdout)["sets"][0], done.stderr


def test_a_stopped_command_continues_to_the_file_of_one_that_was_not_stopped(folder):
    left = stop_after_parts(folder, "stopped.safetensors", 5, "model", "pairs")
    assert not (folder / "stopped.safetensors").exists()
    found, said = scored(folder, "model", "pairs", *ONE_BY_ONE, "--out", "stopped.safetensors")
    assert f"continues after {found['num_examples_found']} of {2 * NUM_PAIRS} examples" in said
    assert 2 * (len(left) - 1) <= found["num_examples_found"] < 2 * NUM_PAIRS
    assert (folder / "stopped.safetensors").read_bytes() == (folder / "whole.safetensors").read_bytes()
    assert found["loss"] == pytest.approx(-load_file(folder / "whole.safetensors")["log_probs"].mean(dtype=float), rel=1e-6)
    assert not parts_of(folder, "stopped.safetensors")


def test_a_damaged_part_and_those_after_it_are_scored_again(folder):
    left = stop_after_parts(folder, "damaged.safetensors", 6, "model", "pairs")
    data = bytearray(left[2].read_bytes())
    data[-1] ^= 1
    left[2].write_bytes(data)
    found, said = scored(folder, "model", "pairs", *ONE_BY_ONE, "--out", "damaged.safetensors")
    assert found["num_examples_found"] == 4
    assert f"{left[2].name}: is damaged or incomplete: its examples are scored again" in said
    assert (folder / "damaged.safetensors").read_bytes() == (folder / "whole.safetensors").read_bytes()


def test_parts_of_another_model_are_refused(folder):
    stop_after_parts(folder, "model.safetensors", 2, "model", "pairs")
    done = score(folder, "other", "pairs", "--out", "model.safetensors", code=65)
    assert "model.safetensors.part-0-2: exists with another model" in done.stderr


def test_larger_parts_have_the_same_values(folder):
    score(folder, "model", "pairs", "--out", "large.safetensors")
    score(folder, "model", "pairs", "--part-tokens", "300", "--out", "middle.safetensors")
    whole = load_file(folder / "whole.safetensors")
    for name in ("large", "middle"):
        found = load_file(folder / f"{name}.safetensors")
        np.testing.assert_allclose(found["log_probs"], whole["log_probs"], atol=1e-5)
        assert found["offsets"].tolist() == whole["offsets"].tolist()


def test_examples_of_groups_have_the_values_of_plain_ones(folder):
    score(folder, "model", "plain", *ONE_BY_ONE, "--out", "plain.safetensors")
    score(folder, "model", "pairs", *ONE_BY_ONE, "batch.share_prefixes=false", "--out", "unshared.safetensors")
    plain, unshared, shared = (load_file(folder / f"{name}.safetensors") for name in ("plain", "unshared", "whole"))
    assert {name: values.tolist() for name, values in plain.items()} == \
        {name: values.tolist() for name, values in unshared.items()}
    assert shared["offsets"].tolist() == plain["offsets"].tolist()
    np.testing.assert_allclose(shared["log_probs"], plain["log_probs"], atol=1e-5)


def test_parts_of_whole_pairs_continue_those_of_examples(folder):
    """A command without shared prompts stopped between the answers of a pair."""
    left = stop_after_parts(folder, "mixed.safetensors", 4, "model", "pairs", "batch.share_prefixes=false")
    for part in left[3:]:
        part.unlink(missing_ok=True)
    found, _ = scored(folder, "model", "pairs", *ONE_BY_ONE, "--out", "mixed.safetensors")
    assert found["num_examples_found"] == 3
    np.testing.assert_allclose(load_file(folder / "mixed.safetensors")["log_probs"],
                               load_file(folder / "whole.safetensors")["log_probs"], atol=1e-5)


def test_a_store_with_parts_is_still_a_store(folder):
    packtrain("prepare", "pairs.jsonl", "--tokenizer", "model", "--out", "kept", cwd=folder)
    score(folder, "model", "kept")
    [whole] = (folder / "kept").glob("log-probs-*.safetensors")
    for suffix in ("tmp", "part-0-7"):
        whole.with_name(f"{whole.name}.{suffix}").write_bytes(b"")
    packtrain("prepare", "pairs.jsonl", "--tokenizer", "model", "--out", "kept", "--overwrite", cwd=folder)
    assert not list((folder / "kept").glob("log-probs-*"))
