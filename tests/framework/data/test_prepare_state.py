"""Tests what store.json and an unfinished preparation record in addition to the examples: weights, counts, the date,
and the version of the rules."""

import hashlib
import json
import os
import shutil
import signal
import subprocess

import numpy as np
import pytest
from prepare_program import changed_prepare, files_of, run_tool, write_lines
from safetensors.numpy import load_file

from packtrain_tools.errors import ToolError, run_main
from packtrain_tools.prepare import unfinished
from packtrain_tools.prepare.counts import in_order, sentences
from packtrain_tools.prepare.examples import make_examples
from packtrain_tools.prepare.loss_weights import is_rounded, mask_byte, weight_table
from packtrain_tools.prepare.shard_file import write_shard, write_synced
from packtrain_tools.prepare.store import StoreWriter, new_store
from packtrain_tools.store_reader import StoreReader

CHANGED = {"CHANGED_EXAMPLES": "1"}
# 26 hours apart: it is never the same day in both.
EARLY, LATE = ({"TZ": zone} for zone in ("Pacific/Kiritimati", "Etc/GMT+12"))


@pytest.fixture
def arguments(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *[{"prompt": f"The old owl {n}", "completion": " saw."}
                                                 for n in range(300)])
    return [source, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store"]


def info_of(folder):
    return json.loads((folder / "store.json").read_text())


def today(environment):
    return subprocess.run(["date", "+%Y-%m-%d"], env=os.environ | environment,
                          capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("weight, byte", [(0, 0), (1, 1), (1.0, 1), (True, 1), (0.01, 2), (0.29, 30),
                                          (0.5, 51), (0.99, 100), (0.333, 34), (0.996, 1), (1e-9, 2)])
def test_a_weight_becomes_the_byte_of_the_nearest_hundredth(weight, byte):
    assert mask_byte(weight) == byte
    assert is_rounded(weight) == (weight in (0.333, 0.996, 1e-9))


def test_every_byte_is_that_of_its_weight():
    table = weight_table()
    assert len(table) == 101
    assert table[:3] == [0, 1, 0.01] and table[100] == 0.99
    assert [mask_byte(weight) for weight in table] == list(range(101))
    assert not any(map(is_rounded, table))


@pytest.mark.parametrize("weight", [-0.1, 1.01, float("nan")])
def test_a_weight_outside_0_to_1_is_refused(weight):
    with pytest.raises(ValueError, match="wanted a number from 0 to 1"):
        mask_byte(weight)


def make_store(tokenizer_folder, folder, masks):
    writer = StoreWriter(str(folder), new_store(str(folder), str(tokenizer_folder), 300, ["s"], False),
                         max_shard_tokens=4)
    ids = [list(range(len(mask))) for mask in masks]
    writer.add(make_examples(ids, [np.array(mask, np.uint8) for mask in masks], [0] * len(masks)))
    writer.finish()
    return info_of(folder)


def test_a_store_with_weights_holds_their_table_and_requires_it(tokenizer_folder, tmp_path):
    info = make_store(tokenizer_folder, tmp_path / "store", [[0, 1, 1, 1], [51, 51, 0, 2]])
    assert info["loss_weights"] == weight_table()
    assert info["requires"] == ["loss_weights"]
    assert info["num_loss_tokens"] == 5  # with any weight, and never the first token
    assert StoreReader(str(tmp_path / "store")).count_ids()[:4].tolist() == [0, 2, 1, 2]


def test_a_store_without_weights_has_the_keys_that_it_always_had(tokenizer_folder, tmp_path):
    info = make_store(tokenizer_folder, tmp_path / "store", [[0, 1, 1, 1], [1, 1, 0, 1]])
    assert not {"loss_weights", "requires", "counts", "date"} & set(info)


def test_a_store_that_requires_what_the_reader_does_not_know_is_refused(tokenizer_folder, tmp_path):
    info = make_store(tokenizer_folder, tmp_path / "store", [[0, 1]])
    (tmp_path / "store" / "store.json").write_text(
        json.dumps(info | {"requires": ["loss_weights", "pictures"]}))
    with pytest.raises(ToolError, match=r"store.json: .* 'pictures'"):
        StoreReader(str(tmp_path / "store"))


def test_counts_of_zero_are_not_reported():
    assert in_order({"overlaps": 1, "later": 2, "cut_turns": 0, "empty_answers": 1_200}) == {
        "empty_answers": 1_200, "overlaps": 1, "later": 2}
    said = sentences({"empty_answers": 1_200, "cut_turns": 0, "later_ones": 2})
    assert len(said) == 2
    assert said[0].startswith("Answers that are empty or only white space: 1,200.")
    assert said[1] == "later ones: 2."


def test_counts_of_all_chunks_are_stored_and_reported_at_the_end(arguments, tmp_path):
    result = changed_prepare("never", *arguments, environment=CHANGED)  # 15 chunks
    assert "Answers that are empty or only white space: 75." in result.stdout
    assert info_of(tmp_path / "store")["counts"] == {"empty_answers": 75}
    result = changed_prepare("never", *arguments, "--json", "--overwrite", environment=CHANGED)
    assert json.loads(result.stdout)["counts"] == {"empty_answers": 75}


def test_the_date_is_reported_once_and_stored_where_a_template_asked_for_it(
        arguments, tmp_path):
    result = changed_prepare("never", *arguments, "--date", "2025-02-03", environment=CHANGED)
    assert result.stderr.count("prints the date: 2025-02-03 in every example (--date changes it)") == 1
    assert info_of(tmp_path / "store")["date"] == "2025-02-03"
    result = run_tool("prepare.py", *arguments, "--overwrite")
    assert "prints the date" not in result.stderr
    assert "date" not in info_of(tmp_path / "store")


def test_every_day_makes_the_same_store(arguments, tmp_path):
    stores = []
    for day in (EARLY, LATE):
        result = changed_prepare("never", *arguments, "--overwrite", environment=CHANGED | day)
        assert result.returncode == 0, result.stderr
        stores += files_of(tmp_path / "store")
    assert stores[0] == stores[1]
    assert json.loads(stores[0]["store.json"])["date"] == "2024-07-26"


@pytest.mark.parametrize("processes", [1, 2])
def test_the_date_that_a_template_prints_is_in_the_store_for_any_number_of_processes(
        tokenizer_folder, tmp_path, processes):
    source = write_lines(tmp_path / "a.jsonl", *[{"messages": [
        {"role": "user", "content": f"owl {n}"}, {"role": "assistant", "content": "saw"}]}
        for n in range(50)])
    (tmp_path / "template.jinja").write_text(
        "{{- strftime_now('%Y-%m-%d') }}{% for m in messages %}{{- m.content + '<|endoftext|>' }}"
        "{% endfor %}")
    result = run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", "--chat-template", tmp_path / "template.jinja",
                      "--processes", processes, "--date", "2025-02-03", "--samples", 1)
    assert result.stderr.count("prints the date: 2025-02-03") == 1
    assert info_of(tmp_path / "store")["date"] == "2025-02-03"
    assert "2025-02-03owl" in result.stdout


def test_today_is_the_day_when_the_preparation_began(arguments, tmp_path):
    before = today(EARLY)
    arguments += ["--date", "today"]
    result = changed_prepare("kill:3", *arguments, environment=CHANGED | EARLY)
    assert result.returncode == -signal.SIGKILL, result.stderr
    result = changed_prepare("never", *arguments, environment=CHANGED | LATE)
    assert result.returncode == 0, result.stderr
    assert "continues after" in result.stderr
    assert before <= info_of(tmp_path / "store")["date"] <= today(EARLY)
    result = changed_prepare("never", *arguments, "--overwrite", environment=CHANGED | LATE)
    assert info_of(tmp_path / "store")["date"] < before


@pytest.mark.parametrize("value", ["26 Jul 2024", "2024-02-30", "yesterday"])
def test_a_date_that_is_none_is_refused(arguments, value):
    result = run_tool("prepare.py", *arguments, "--date", value, exit_code=64)
    assert f"'{value}' is not YYYY-MM-DD" in result.stderr


@pytest.mark.parametrize("rules", [None, 1, unfinished.RULES_VERSION + 1])
def test_a_preparation_of_other_rules_is_not_resumed(arguments, tmp_path, rules):
    assert changed_prepare("kill:3", *arguments).returncode == -signal.SIGKILL
    path = tmp_path / "store" / "unfinished.json"
    state = json.loads(path.read_text())
    assert state.pop("rules") == unfinished.RULES_VERSION
    path.write_text(json.dumps(state | ({"rules": rules} if rules else {})))
    result = run_tool("prepare.py", *arguments, exit_code=65)
    assert f"has version {rules or 1} of the rules" in result.stderr
    assert "start anew with --overwrite" in result.stderr
    result = run_tool("prepare.py", *arguments, "--overwrite")
    assert "continues" not in result.stderr
    assert info_of(tmp_path / "store")["num_examples"] == 300


@pytest.mark.parametrize("options, said", [
    (["--too-long", "drop"], "needs --max-length"),
    (["--max-length", 1], "--max-length is 1, wanted at least 2"),
    (["--min-length", 9, "--max-length", 8], "more than --max-length"),
    (["--end-token", "a", "--no-end-token"], "not allowed with"),
    (["--also-train-on", "assistant"], "invalid choice"),
    (["--special-tokens-in-data", "words"], "invalid choice"),
    (["--left-out-parts", "keep"], "invalid choice")])
def test_options_that_make_no_sense_are_refused(arguments, options, said):
    assert said in run_tool("prepare.py", *arguments, *options, exit_code=64).stderr


def test_a_shard_has_its_bounds_and_a_digest(tokenizer_folder, tmp_path):
    first, second = make_store(tokenizer_folder, tmp_path / "store", [[0, 1, 1, 1], [1, 0]])["shards"]
    assert first["lengths"] == [4, 4] and first["labels"] == [3, 3] and first["mask_bytes"] == [1, 3]
    assert second["lengths"] == [2, 2] and second["labels"] == [0, 0] and second["mask_bytes"] == [1, 1]
    columns = load_file(tmp_path / "store" / first["file"])
    names = ("offsets", "input_ids", "num_loss_tokens", "source", "loss_mask")
    digest = hashlib.blake2b(b"".join(columns[name].tobytes() for name in names), digest_size=16)
    assert first["digest"] == digest.hexdigest()


def test_a_resumed_preparation_reads_no_tokens_where_none_are_compared(tokenizer_folder, tmp_path, monkeypatch):
    masks = [[0, 1, 1, 1], [0, 1, 1], [0, 1]]
    wanted = make_store(tokenizer_folder, tmp_path / "wanted", masks)
    folder = str(tmp_path / "store")
    examples = make_examples([list(range(len(mask))) for mask in masks],
                             [np.array(mask, np.uint8) for mask in masks], [0] * len(masks))
    begun = StoreWriter(folder, new_store(folder, str(tokenizer_folder), 300, ["s"], False), 4)
    begun.add(examples)
    state = json.loads(json.dumps(begun.save(1)))

    def fail(path):
        raise AssertionError(f"{path} was read")

    monkeypatch.setattr("packtrain_tools.prepare.store.read_contents", fail)
    resumed = StoreWriter(folder, {}, 4)
    resumed.restore(state)
    summary = resumed.finish()
    assert info_of(tmp_path / "store") == wanted
    assert summary["length"]["max"] == 4 and summary["num_examples"] == 3


@pytest.mark.parametrize("write", [
    lambda path: write_synced(str(path), b"x" * 99),
    lambda path: write_shard(str(path), [make_examples([[1, 2]], [np.ones(2, np.uint8)], [0])])])
def test_a_full_disk_is_named_with_the_file_and_what_to_do(tmp_path, capsys, write):
    path = tmp_path / "part-00000.safetensors"
    path.symlink_to("/dev/full")
    assert run_main("packtrain prepare", lambda: write(path)) == 65
    assert capsys.readouterr().err == \
        f"packtrain prepare: {path}: No space left on device\n  Free space there, then give the same command again.\n"


def test_a_store_has_all_templates_of_its_tokenizer_unless_another_is_given(tokenizer_folder, tmp_path):
    tokenizer = tmp_path / "tokenizer"
    shutil.copytree(tokenizer_folder, tokenizer)
    (tokenizer / "additional_chat_templates").mkdir()
    (tokenizer / "additional_chat_templates" / "tool_use.jinja").write_text("{{ tools }}")
    (tmp_path / "own.jinja").write_text("own")
    new_store(str(tmp_path / "all"), str(tokenizer), 9, [], False)
    copied = tmp_path / "all" / "tokenizer" / "additional_chat_templates" / "tool_use.jinja"
    assert copied.read_text() == "{{ tools }}"
    new_store(str(tmp_path / "all"), str(tokenizer), 9, [], True, str(tmp_path / "own.jinja"))
    assert not copied.exists()
    assert (tmp_path / "all" / "tokenizer" / "chat_template.jinja").read_text() == "own"
