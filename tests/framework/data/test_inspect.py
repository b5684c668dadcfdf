"""`packtrain inspect`: examples of stores, and packs of configurations, with their masks."""

import json
import os
import subprocess
import sys

import pytest
from prepare_program import dump, run_tool, write_lines

PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
CONFIG = """\
model:
  config: {model_type: llama, hidden_size: 32, intermediate_size: 64, num_hidden_layers: 2,
    num_attention_heads: 4, num_key_value_heads: 2, vocab_size: 300,
    max_position_embeddings: 512, rms_norm_eps: 1.0e-5, rope_theta: 10000.0,
    tie_word_embeddings: true}
data: {train: [{path: STORES/a, repeats: 2}, STORES/b], max_length: 40, too_long: split}
batch: {global_batch_size: 8, max_tokens_per_micro_batch: 64}
run: {output: run}
"""


@pytest.fixture(scope="module")
def stores(tokenizer_folder, tmp_path_factory):
    """a: 30 examples of two sources; b: 10 of one, of which some are longer than data.max_length."""
    folder = tmp_path_factory.mktemp("stores")
    pairs = [{"prompt": f"The owl {i}", "completion": f" saw {i} birds"} for i in range(20)]
    first = write_lines(folder / "first.jsonl", *pairs)
    second = write_lines(folder / "second.jsonl", *[{"text": f"fox {i}"} for i in range(10)])
    long = write_lines(folder / "long.jsonl", *[{"text": "hare " * (5 + 6 * i)} for i in range(10)])
    for name, sources in [("a", [first, second]), ("b", [long])]:
        run_tool("prepare.py", *sources, "--tokenizer", tokenizer_folder, "--out", folder / name)
    (folder / "config.yaml").write_text(CONFIG.replace("STORES", str(folder)))
    return folder


def inspect(*arguments, exit_code=0, environment=None):
    result = subprocess.run([PROGRAM, "inspect", *map(str, arguments)], capture_output=True,
                            text=True, timeout=100, env=os.environ | (environment or {}) |
                            {"PACKTRAIN_PYTHON": sys.executable})
    assert result.returncode == exit_code, result.stderr
    assert "Traceback" not in result.stderr
    return result.stdout if exit_code == 0 else result.stderr


def shown(said):
    """Header line: what follows it, of each example."""
    parts = said.split("--- ")[1:]
    return dict(part.split("\n", 1) for part in parts)


def test_examples_are_shown_by_number_with_what_is_learned_between_marks(stores):
    examples = shown(inspect(stores / "a", 3, 22))
    [(first, first_text), (second, second_text)] = examples.items()
    assert first.startswith(f"example 3 of {stores / 'first.jsonl'}: ")
    assert first_text == "The owl 3⟦ saw 3 birds<|endoftext|>⟧\n"
    assert second.startswith(f"example 22 of {stores / 'second.jsonl'}: ")
    assert second_text.endswith(" 2<|endoftext|>⟧\n")
    assert not second_text.startswith("⟦")  # nothing predicts a first token


def test_examples_are_shown_by_source_and_at_random(stores):
    assert len(shown(inspect(stores / "a"))) == 3
    for name in ("second.jsonl", "1", str(stores / "second.jsonl")):
        assert list(shown(inspect(stores / "a", "--source", name))) == \
            list(shown(inspect(stores / "a", 20, 21, 22)))
    drawn = [list(shown(inspect(stores / "a", "--random", 5, "--seed", seed)))
             for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len(set(drawn[0])) == 5
    assert len(shown(inspect(stores / "a", "--random", 99, "--source", "second.jsonl"))) == 10


def test_ids_are_shown_on_request_and_long_passages_are_shortened(stores):
    [ids] = dump(stores / "b")["examples"][9:]
    [text] = shown(inspect(stores / "b", 9, "--ids", "--max-chars", 0)).values()
    assert [int(word) for word in text.replace("⟦", "").replace("⟧", "").split()] == (
        ids["input_ids"])
    [text] = shown(inspect(stores / "b", 9, "--max-chars", 50)).values()
    assert "[... " in text and len(text) < 100


def test_the_mask_is_in_colour_on_a_terminal_unless_it_is_not_wanted(stores):
    import pty
    for environment, marks in [({"TERM": "xterm", "NO_COLOR": ""}, "\x1b[32m saw 0"),
                               ({"TERM": "xterm", "NO_COLOR": "1"}, "⟦ saw 0")]:
        main, side = pty.openpty()
        subprocess.run([PROGRAM, "inspect", stores / "a", "0"], stdout=side, check=True, timeout=100,
                       env=os.environ | environment | {"PACKTRAIN_PYTHON": sys.executable,
                                                       "PYTHONIOENCODING": "utf-8"})
        os.close(side)
        said = b""
        while True:
            try:
                said += os.read(main, 65536)
            except OSError:  # Linux: the other side is closed, and all is read
                break
        os.close(main)
        assert marks in said.decode()


def planned(stores, *arguments):
    result = subprocess.run([PROGRAM, "plan", stores / "config.yaml", "--json", *arguments],
                            capture_output=True, text=True, timeout=100, check=True)
    return json.loads(result.stdout)["steps"]


def test_the_pack_of_a_rank_holds_the_planned_pieces_of_the_joined_stores(stores):
    steps = planned(stores, "--ranks", "2", "--steps", "9")
    examples = {name: dump(stores / name)["examples"] for name in "ab"}
    seen = set()
    for step in (0, 4, 8):
        said = inspect(stores / "config.yaml", "--step", step, "--rank", 1, "--ranks", 2, "--ids",
                       "--max-chars", 0)
        wanted = [piece for micro_batch in steps[step]["ranks"][1] for piece in micro_batch]
        texts = said.split("--- ")[1:]
        assert said.startswith(f"step {step} of 9, rank 1 of 2: ")
        assert said.count("=== micro-batch") == len(steps[step]["ranks"][1])
        for part, (number, begin, length) in zip(texts, wanted, strict=True):
            header, _, text = part.partition("\n")
            store, local = ("a", number % 30) if number < 60 else ("b", number - 60)
            seen.add(store)
            assert f"{length} tokens, example {local} of {stores / store}, source " in header
            ids = examples[store][local]["input_ids"]
            assert ("of it" in header) == (length != len(ids))
            words = text.split("===")[0].replace("⟦", "").replace("⟧", "").split()
            assert list(map(int, words)) == ids[begin:begin + length]
    assert seen == {"a", "b"}


@pytest.fixture(scope="module")
def run(stores):
    """One step on pairs and texts; its folder."""
    folder = stores / "sampled"
    subprocess.run([PROGRAM, "train", stores / "config.yaml", f"run.output={folder}", "run.max_steps=2",
                    f"data.validation={{pairs: {stores / 'a'}, long: {stores / 'b'}}}", "samples.steps=1",
                    "samples.num_prompts=2", "samples.max_new_tokens=3", "samples.prompt_tokens=4",
                    "precision.compute=fp32", "precision.reduce=fp32", "batch.max_tokens_per_micro_batch=256",
                    "checkpoint.save_final=false", "metrics.serve=false"],
                   check=True, capture_output=True, timeout=200)
    return folder


def test_a_text_of_a_run_is_shown_after_its_prompt(run):
    examples = shown(inspect(run))
    assert [title.split(":")[0] for title in examples] == [
        f"step 2, example {number} of {name}" for name, number in
        [("pairs", 0), ("pairs", 15), ("long", 0), ("long", 5)]], "after the last step"
    first = next(iter(examples.values()))
    assert first.startswith("The owl 0\u27e6") and "the example itself:  saw 0 birds<|endoftext|>" in first
    assert len(shown(inspect(run, "--step", 1, "--set", "long"))) == 2
    assert len(shown(inspect(run, 15))) == 2, "after each step"
    line = json.loads((run / "samples.jsonl").read_text().splitlines()[0])
    assert "\u27e6" + " ".join(map(str, line["continuation"])) in inspect(run, 0, "--ids", "--step", 1)


@pytest.mark.parametrize(("arguments", "message"), [
    (["77"], "There are example 0 of long"), (["--step", 9], "after steps 1, 2"), (["--rank", 0], "is a run")])
def test_samples_that_are_not_there_are_named(run, arguments, message):
    assert message in inspect(run, *arguments, exit_code=64)


@pytest.mark.parametrize("arguments, exit_code, message", [
    (["a", "30"], 64, "has no example 30, only 0..29"),
    (["a", "x=1"], 64, "'x=1' is no number of an example"),
    (["a", "--source", "third"], 64, "no source is called 'third'"),
    (["a", "--source", ".jsonl"], 64, "several sources are called '.jsonl'"),
    (["a", "--step", "1"], 64, "--step is of configurations"),
    (["a", "1", "--random", "1"], 64, "numbers of examples exclude --random"),
    ([""], 65, "is no token store: it has no store.json"),
    (["missing"], 64, "is no token store, configuration or run"),
    (["config.yaml", "--random", "1"], 64, "--random is of stores"),
    (["config.yaml", "--rank", "1"], 64, "--rank is 1, of --ranks 1 the last is 0"),
    (["config.yaml", "--step", "9"], 65, "has no step 9: the run has the steps 0..8"),
    (["config.yaml", "--micro-batch", "99"], 64, "--micro-batch is 99, wanted 0.."),
    (["config.yaml", "run.sed=1"], 64, "unknown key"),
    (["config.yaml", "--random", "-1"], 64, "--random is -1, wanted at least 0")])
def test_mistakes_are_named(stores, arguments, exit_code, message):
    assert message in inspect(stores / arguments[0], *arguments[1:], exit_code=exit_code)


def test_a_reader_that_has_seen_enough_is_no_error(stores):
    read_end, write_end = os.pipe()
    os.close(read_end)  # has seen enough before the first word
    done = subprocess.run([PROGRAM, "inspect", stores / "a", *map(str, range(30))], text=True,
                          stdout=write_end, stderr=subprocess.PIPE, timeout=100,
                          env=os.environ | {"PACKTRAIN_PYTHON": sys.executable})
    os.close(write_end)
    assert done.stderr == ""
    assert done.returncode == 141
