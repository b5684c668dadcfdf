"""Tests `packtrain prepare` on many examples: duplicates, held-out examples, resuming, bounded memory, progress, and
the summary."""

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import pytest
import tokenizers
from prepare_program import TOOLS, changed_prepare, dump, files_of, run_tool, write_lines

from packtrain_tools.folder_lock import alone_in

WORDS = ["owl", "fox", "hare", "birds", "saw", "the", "old", "young", "wise", "two"]


def texts(number):
    """Different ones of 1 to 60 words, every fifth the copy of an earlier one."""
    for i in range(number):
        n = i // 7 if i % 5 == 4 else i
        yield " ".join(WORDS[(n * k + n // k) % 10] for k in range(1, 2 + n * 31 % 60)) + f" {n}"


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "a.jsonl"
    lines = [json.dumps({"text": text}) for text in texts(1500)]
    lines[700:700] = ["bad"] * 3
    path.write_text("\n".join(lines) + "\n")
    return path


def ids_of_store(folder):
    return [tuple(example["input_ids"]) for example in dump(folder)["examples"]]


HELD = {"fraction": ["--validation-fraction", 0.2], "number": ["--validation-examples", 100]}
SAMPLED = {"share": ["--sample", 0.7], "some": ["--sample", 600], "all": []}


def arguments_for(source, tokenizer_folder, folder, held):
    return [source, "--tokenizer", tokenizer_folder, "--out", folder / "train",
            "--validation-out", folder / "validation", *held, "--deduplicate",
            "--skip-bad-lines", "--max-bad-fraction", 0.01, "--seed", 3]


@pytest.mark.parametrize("held, sampled, processes, changed", [
    ("fraction", "all", 2, False), ("number", "all", 1, False), ("number", "share", 2, True),
    ("fraction", "some", 1, True), ("number", "some", 2, False)])
def test_one_that_was_ended_again_and_again_makes_the_same_stores(
        source, tokenizer_folder, tmp_path, held, sampled, processes, changed):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    environment = {"CHANGED_EXAMPLES": "1"} if changed else {}
    options = [*HELD[held], *SAMPLED[sampled]]
    result = changed_prepare("never", *arguments_for(source, tokenizer_folder, whole, options),
                             environment=environment)
    assert result.returncode == 0, result.stderr
    arguments = [*arguments_for(source, tokenizer_folder, broken, options), "--processes",
                 processes]
    for when, exit_code in [("kill:9", -signal.SIGKILL), ("died:4", -signal.SIGKILL),
                            ("term:3", 75), ("term:40", 75), ("kill:1", -signal.SIGKILL)]:
        result = changed_prepare(when, *arguments, environment=environment)
        assert result.returncode == exit_code, result.stderr
        assert not (broken / "train" / "store.json").exists()
        assert not (broken / "validation" / "store.json").exists()
    assert "continues after" in result.stderr
    result = changed_prepare("never", *arguments, environment=environment)
    assert result.returncode == 0, result.stderr
    assert "continues after" in result.stderr
    for folder in ("train", "validation"):
        wanted, got = files_of(whole / folder, broken / folder)
        assert wanted == got
    num_shards = len([name for name in files_of(whole / "train")[0] if name.startswith("part-")])
    assert num_shards > 1
    info = json.loads(wanted["store.json"])
    assert ("date" in info, "loss_weights" in info) == (changed, changed)


def test_only_the_same_command_resumes_a_preparation(
        source, tokenizer_folder, tmp_path):
    arguments = arguments_for(source, tokenizer_folder, tmp_path, HELD["fraction"])
    assert changed_prepare("term:5", *arguments).returncode == 75
    result = changed_prepare("never", *arguments, "--max-examples", 1000)
    assert result.returncode == 65
    assert "holds what another command, or one with other sources, has not finished" in result.stderr
    result = changed_prepare("never", *arguments, "--max-examples", 1000, "--overwrite")
    assert result.returncode == 0, result.stderr
    assert "continues" not in result.stderr
    assert "is not empty" in changed_prepare("never", *arguments).stderr
    number = [len(dump(tmp_path / name)["examples"]) for name in ("train", "validation")]
    assert sum(number) == 1000


@pytest.mark.parametrize("processes", [1, 2])
def test_one_preparation_at_a_time_works_in_a_folder(source, tokenizer_folder, tmp_path, processes):
    common = ["--tokenizer", str(tokenizer_folder), "--processes", str(processes), "--out", str(tmp_path / "store")]
    first = subprocess.Popen([sys.executable, TOOLS / "prepare.py", "-", *common], stdin=subprocess.PIPE)
    first.stdin.write(b"".join(b'{"text": "owl %d"}\n' % number for number in range(20000)))
    first.stdin.flush()
    while not (tmp_path / "store" / "tokenizer" / "tokenizer.json").exists():
        assert first.poll() is None
        time.sleep(0.05)
    for more in ([], ["--overwrite"], ["--validation-out", tmp_path / "new", "--validation-examples", 9]):
        refused = run_tool("prepare.py", source, *common, "--skip-bad-lines", *more, exit_code=64)
        assert f"{tmp_path / 'store'}: another prepare is at work in this folder\n  Wait" in refused.stderr
    assert first.communicate(timeout=60) and first.returncode == 0
    assert len(dump(tmp_path / "store")["examples"]) == 20000
    assert os.listdir(tmp_path) == ["store"]
    assert "is not empty" in run_tool("prepare.py", source, *common, exit_code=65).stderr


def test_a_refused_preparation_leaves_no_new_folder(source, tokenizer_folder, tmp_path):
    arguments = arguments_for(source, tokenizer_folder, tmp_path, HELD["number"])
    with alone_in(str(tmp_path / "validation"), "prepare", ""):
        result = run_tool("prepare.py", *arguments, exit_code=64)
    assert "validation: another prepare is at work in this folder" in result.stderr
    assert os.listdir(tmp_path) == ["validation"] and not os.listdir(tmp_path / "validation")


def test_a_lock_ends_with_its_process_though_workers_live(tmp_path):
    folder = str(tmp_path / "store")
    begun, begins = os.pipe()
    with alone_in(folder, "prepare", ""):
        worker = os.fork()
        if not worker:
            os.write(begins, b"1")
            time.sleep(60)
            os._exit(0)
        os.read(begun, 1)
    try:
        with alone_in(folder, "prepare", ""):
            pass
    finally:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def test_duplicates_are_left_out_and_counted(source, tokenizer_folder, tmp_path):
    arguments = [source, "--tokenizer", tokenizer_folder, "--skip-bad-lines", "--max-bad-fraction",
                 0.01, "--json"]
    run_tool("prepare.py", *arguments, "--out", tmp_path / "all")
    result = run_tool("prepare.py", *arguments, "--out", tmp_path / "once", "--deduplicate")
    everything, once = ids_of_store(tmp_path / "all"), ids_of_store(tmp_path / "once")
    assert once == list(dict.fromkeys(everything))
    assert json.loads(result.stdout)["num_duplicates"] == len(everything) - len(once) > 200


@pytest.mark.parametrize("held", HELD)
def test_what_is_held_out_follows_from_contents_and_seed(tokenizer_folder, tmp_path, held):
    lines = [{"text": text} for text in dict.fromkeys(texts(1500))]
    stores = {}
    for name, values, seed in [("a", lines, 0), ("b", lines[::-1], 0), ("c", lines, 1)]:
        source = write_lines(tmp_path / f"{name}.jsonl", *values)
        run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out", tmp_path / name,
                 *HELD[held], "--validation-out", tmp_path / f"{name}-held", "--seed", seed)
        stores[name] = [ids_of_store(tmp_path / name), ids_of_store(tmp_path / f"{name}-held")]
        training, validation = map(set, stores[name])
        assert not training & validation
        assert len(training) + len(validation) == len(lines)
    validation = {name: set(held_out) for name, (_, held_out) in stores.items()}
    assert validation["a"] == validation["b"]  # in any order
    assert len(validation["a"] & validation["c"]) < 0.5 * len(validation["a"])
    if held == "number":
        assert len(validation["a"]) == len(validation["c"]) == 100
    else:
        share = len(validation["a"]) / len(lines)
        assert abs(share - 0.2) < 4 * (0.2 * 0.8 / len(lines)) ** 0.5


def test_memory_does_not_grow_with_the_file(tmp_path):
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel(
        {word: i for i, word in enumerate(WORDS)}, unk_token="owl"))
    words.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    words.save(str(tmp_path / "tokenizer.json"))
    line = json.dumps({"text": "the old owl saw two birds " * 600}) + "\n"
    peaks = {}
    for num_lines in (300, 3000):  # 5 and 47 MB; ids and mask are as much
        path = tmp_path / f"{num_lines}.jsonl"
        path.write_text(line * num_lines)
        result = changed_prepare("never", path, "--tokenizer", tmp_path, "--out",
                                 tmp_path / f"store{num_lines}", "--processes", 1, "--samples", 0, "--no-end-token",
                                 shard_tokens=1 << 18)
        assert result.returncode == 0, result.stderr
        peaks[num_lines] = int(re.search(r"peak KiB (\d+)", result.stderr)[1])
    assert peaks[3000] < peaks[300] + 15_000


def test_the_summary_shows_lengths_and_samples_with_their_mask(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *[{"prompt": "The owl", "completion": " saw" * n}
                                                 for n in (1, 1, 20)])
    result = run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", "--samples", 3)
    assert "3 examples" in result.stdout
    assert re.search(r"\n +\d+-\d+ +2 #{50}\n( +\d+-\d+ +0\n)* +\d+-\d+ +1 #{25}\n", result.stdout)
    assert result.stdout.count("--- example") == 3
    assert "The owl⟦ saw<|endoftext|>⟧\n" in result.stdout


def test_progress_is_a_bar_on_a_terminal_only(source, tokenizer_folder, tmp_path):
    arguments = [source, "--tokenizer", tokenizer_folder, "--skip-bad-lines", "--max-bad-fraction",
                 "0.01", "--out", tmp_path / "store"]
    program = ("import sys; sys.argv = sys.argv[1:]; sys.path.insert(0, sys.argv[0]);"
               "from packtrain_tools import progress, errors; progress.SECONDS_ON_TERMINAL = 0;"
               "import prepare; sys.exit(errors.run_main('prepare', prepare.main))")
    main, side = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", program, str(TOOLS), *map(str, arguments)],
                          stdout=subprocess.DEVNULL, stderr=side) as process:
        os.close(side)
        said = b""
        while True:
            try:
                block = os.read(main, 65536)
            except OSError:  # Linux: the other side is closed
                break
            said += block
        assert process.wait(100) == 0, said
    os.close(main)
    assert re.search(rb"\[#+\.*\] +\d+%  [\d,]+ examples  [\d,]+ tokens/s  \d+:\d\d left", said)
    assert "[" not in run_tool("prepare.py", *arguments, "--overwrite").stderr
