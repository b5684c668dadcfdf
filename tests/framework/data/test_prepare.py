"""`packtrain prepare` and the tokenizer trainer, as programs; stores read back through C++."""

import hashlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest
from prepare_program import CORPUS, TOOLS, dump, ids_of, run_tool, write_lines
from safetensors.numpy import load_file

from packtrain_tools.prepare.examples import make_examples
from packtrain_tools.prepare.store import StoreWriter, new_store


def test_transformers_loads_the_trained_tokenizer_and_any_text_survives_it(oracle):
    assert len(oracle) == 300
    assert oracle.eos_token == "<|endoftext|>"
    for text in ("The old fox", "ünïcode 漢字 \x00\n\t", CORPUS[0]):
        assert oracle.decode(ids_of(oracle, text)) == text


def test_training_a_tokenizer_is_deterministic(tokenizer_folder, tmp_path):
    corpus = tokenizer_folder.parent / "corpus.txt"
    run_tool("train_tokenizer.py", corpus, "--separator", "%", "--vocab-size", 300, "--out",
             tmp_path / "again")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        assert (tmp_path / "again" / name).read_bytes() == (tokenizer_folder / name).read_bytes()


def test_a_text_file_is_one_example_that_ends_with_the_end_token(
        tokenizer_folder, oracle, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"\xef\xbb\xbfThe old owl\r\nsaw 3 birds.")
    run_tool("prepare.py", tmp_path / "a.txt", "--tokenizer", tokenizer_folder, "--out",
             tmp_path / "store")
    ids = ids_of(oracle, "The old owl\nsaw 3 birds.") + [oracle.eos_token_id]
    columns = load_file(tmp_path / "store" / "part-00000.safetensors")
    for name, dtype, values in [
            ("input_ids", np.int32, ids), ("offsets", np.int64, [0, len(ids)]),
            ("loss_mask", np.uint8, [1] * len(ids)), ("num_loss_tokens", np.int32, [len(ids) - 1]),
            ("source", np.int16, [0])]:
        assert columns.pop(name).tobytes() == np.array(values, dtype).tobytes(), name
    assert not columns


def test_only_the_completion_is_learned_and_no_token_lies_across_the_boundary(
        tokenizer_folder, oracle, tmp_path):
    pairs = [("The ol", "d fox"), ("", "The fox"), ("saw 1", "")]
    source = write_lines(tmp_path / "a.jsonl", *[{"prompt": p, "completion": c, "id": 7}
                                                 for p, c in pairs])
    run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store")
    examples = dump(tmp_path / "store")["examples"]
    assert len(examples) == len(pairs)
    for example, (prompt, completion) in zip(examples, pairs):
        prompt_ids = ids_of(oracle, prompt)
        learned = ids_of(oracle, completion) + [oracle.eos_token_id]
        assert example["input_ids"] == prompt_ids + learned
        assert example["loss_mask"] == [0] * len(prompt_ids) + [1] * len(learned)


def test_cpp_reads_what_python_wrote(tokenizer_folder, oracle, tmp_path):
    folder = tmp_path / "texts"
    (folder / "sub").mkdir(parents=True)
    (folder / "b").write_text("one\n%\n\n%\ntwo\n")
    (folder / "a.md").write_text("zero")
    (folder / "sub" / "c.jsonl").write_text('\n{"text": "three"}\n')
    (folder / "b.dat").write_bytes(b"\x00\xff")
    (folder / ".hidden").write_text("no")
    extra = write_lines(tmp_path / "extra.jsonl", {"text": "four"}, {"text": "  "})
    result = run_tool("prepare.py", folder, extra, "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", "--separator", "%", "--json")
    assert "1 *.dat" in result.stderr
    store = dump(tmp_path / "store")
    texts = ["zero", "one\n", "two\n", "three", "four"]
    assert [e["input_ids"] for e in store["examples"]] == [
        ids_of(oracle, text) + [oracle.eos_token_id] for text in texts]
    assert [e["source"] for e in store["examples"]] == [0, 0, 0, 0, 1]
    assert store["sources"] == [str(folder), str(extra)]
    assert store["vocab_size"] == 300
    tokenizer = (tokenizer_folder / "tokenizer.json").read_bytes()
    assert store["tokenizer_hash"] == hashlib.sha256(tokenizer).hexdigest()
    assert (tmp_path / "store" / store["tokenizer"] / "tokenizer.json").read_bytes() == tokenizer
    lengths = [len(e["input_ids"]) for e in store["examples"]]
    summary = json.loads(result.stdout)
    assert summary["num_skipped"] == 2
    assert summary["stores"][0]["num_tokens"] == sum(lengths) == store["num_tokens"]
    assert summary["stores"][0]["length"]["max"] == max(lengths)
    assert summary["stores"][0]["length"]["median"] == sorted(lengths)[2]


def test_cpp_reads_many_shards_that_python_wrote(tokenizer_folder, tmp_path):
    folder = str(tmp_path / "store")
    writer = StoreWriter(folder, new_store(folder, str(tokenizer_folder), 300, ["s"], False),
                         max_shard_tokens=4)
    rows = [[1, 2, 3], [4, 5], [6], [7, 8, 9, 10, 11], [12]]
    writer.add(make_examples(rows[:1], [np.ones(3, np.uint8)], [0]))
    writer.add(make_examples(rows[1:], [np.ones(len(row), np.uint8) for row in rows[1:]], [0] * 4))
    writer.finish()
    assert sorted(p.name for p in (tmp_path / "store").glob("part-*")) == [
        f"part-{i:05}.safetensors" for i in range(3)]
    assert [e["input_ids"] for e in dump(tmp_path / "store")["examples"]] == rows


def test_the_store_does_not_depend_on_the_number_of_workers(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *[{"text": text * (1 + i % 7)}
                                                 for i, text in enumerate(CORPUS * 25)])
    for processes in (1, 3):
        run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--processes", processes,
                 "--out", tmp_path / f"out{processes}", "--validation-fraction", 0.1,
                 "--validation-out", tmp_path / f"validation{processes}", "--max-examples", 4000)
    for kind in ("out", "validation"):
        for name in ("part-00000.safetensors", "store.json"):
            assert ((tmp_path / f"{kind}1" / name).read_bytes() ==
                    (tmp_path / f"{kind}3" / name).read_bytes())
    training = dump(tmp_path / "out1")["examples"]
    validation = dump(tmp_path / "validation1")["examples"]
    assert len(training) + len(validation) == 4000
    assert 200 <= len(validation) <= 600  # 400, more or less four standard deviations: some 1,260
    # contents, each about three times
    contents = {tuple(example["input_ids"]) for example in training}
    assert not contents & {tuple(example["input_ids"]) for example in validation}


def test_a_tokenizer_that_begins_texts_with_a_token_does_so_here(
        tokenizer_folder, oracle, tmp_path):
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    tokenizer = json.loads((tokenizer_folder / "tokenizer.json").read_text())
    end = {"id": "<|endoftext|>", "type_id": 0}
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": end}, {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {end["id"]: {"id": end["id"], "ids": [0], "tokens": [end["id"]]}}}
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    write_lines(folder / "tokenizer_config.json", {"bos_token": {"content": end["id"]}})
    source = write_lines(tmp_path / "a.jsonl", {"prompt": "The", "completion": " owl"})
    arguments = [source, "--tokenizer", folder, "--out", tmp_path / "store"]
    result = run_tool("prepare.py", *arguments, exit_code=64)
    assert "names no end-of-text token" in result.stderr and "--end-token TOKEN" in result.stderr
    run_tool("prepare.py", *arguments, "--no-end-token")
    [example] = dump(tmp_path / "store")["examples"]
    prompt, completion = ids_of(oracle, "The"), ids_of(oracle, " owl")
    assert example["input_ids"] == [0] + prompt + completion
    assert example["loss_mask"] == [0] + [0] * len(prompt) + [1] * len(completion)


def test_a_file_that_changes_while_it_is_read_is_an_error(tmp_path):
    from packtrain_tools import errors
    from packtrain_tools.sources import readers, source_file
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n' * 3)
    records = readers.read_records(source_file.source_file(0, str(path)), None)
    next(records)
    with path.open("ab") as stream:
        stream.write(b"{")
    with pytest.raises(errors.ToolError, match=r"a.jsonl: had 51 bytes, and another number"):
        list(records)


def test_missing_and_empty_sources_are_errors(tokenizer_folder, tmp_path):
    (tmp_path / "empty.txt").write_text("")
    (tmp_path / "folder").mkdir()
    for name, message in [("missing", "No such file"), ("empty.txt", "no example was left"),
                          ("folder", "holds no file that could be data")]:
        result = run_tool("prepare.py", tmp_path / name, "--tokenizer", tokenizer_folder, "--out",
                          tmp_path / f"store-{name}", exit_code=65)
        assert message in result.stderr
        assert "Traceback" not in result.stderr


def test_a_folder_without_a_tokenizer_is_a_configuration_error(tmp_path):
    (tmp_path / "a.txt").write_text("text")
    result = run_tool("prepare.py", tmp_path / "a.txt", "--tokenizer", tmp_path, "--out",
                      tmp_path / "store", exit_code=64)
    assert f"{tmp_path}: has no tokenizer.json" in result.stderr


def test_only_stores_are_replaced_and_only_on_request(tokenizer_folder, tmp_path):
    (tmp_path / "a.txt").write_text("one two")
    arguments = [tmp_path / "a.txt", "--tokenizer", tokenizer_folder, "--out", tmp_path / "store"]
    run_tool("prepare.py", *arguments)
    assert "is not empty" in run_tool("prepare.py", *arguments, exit_code=65).stderr
    run_tool("prepare.py", *arguments, "--overwrite")
    assert len(dump(tmp_path / "store")["examples"]) == 1
    (tmp_path / "store" / "thesis.txt").write_text("years of work")
    result = run_tool("prepare.py", *arguments, "--overwrite", exit_code=65)
    assert "'thesis.txt', which is no part of a token store" in result.stderr
    assert (tmp_path / "store" / "thesis.txt").exists()
    assert len(dump(tmp_path / "store")["examples"]) == 1


def test_an_attempt_that_failed_is_not_in_the_way_of_the_next_one(tokenizer_folder, tmp_path):
    source = tmp_path / "a.jsonl"
    store, held = tmp_path / "store", tmp_path / "held"
    arguments = [source, "--tokenizer", tokenizer_folder, "--out", store,
                 "--validation-fraction", "0.5", "--validation-out", held]
    source.write_text('{"text": "owl"}\nfox\n')
    for _ in range(2):
        assert "a.jsonl:2" in run_tool("prepare.py", *arguments, exit_code=65).stderr
        assert not any(store.iterdir()) and not any(held.iterdir())
    too_many = run_tool("prepare.py", *arguments, "--skip-bad-lines", exit_code=65)
    assert "1 of 2 lines are bad" in too_many.stderr
    assert [path.name for path in store.iterdir()] == ["bad-lines.jsonl"]
    source.write_text("".join(f'{{"text": "owl {i}"}}\n' for i in range(40)))
    run_tool("prepare.py", *arguments)
    assert not (store / "bad-lines.jsonl").exists()


def test_an_existing_validation_store_is_kept(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *[{"text": f"owl {i}"} for i in range(40)])
    arguments = [source, "--tokenizer", tokenizer_folder, "--out"]
    run_tool("prepare.py", *arguments, tmp_path / "held")
    result = run_tool("prepare.py", *arguments, tmp_path / "store", "--validation-fraction", "0.5",
                      "--validation-out", tmp_path / "held", exit_code=65)
    assert f"{tmp_path / 'held'}: exists and is not empty" in result.stderr
    assert not any((tmp_path / "store").iterdir())
    assert len(dump(tmp_path / "held")["examples"]) == 40


@pytest.mark.parametrize("environment, exit_code", [(sys.executable, 0), ("/nowhere/python", 69)])
def test_a_tool_that_is_started_by_any_python_finds_the_environment(tmp_path, environment, exit_code):
    (tmp_path / "a.txt").write_text("the owl saw the fox")
    result = subprocess.run([sys.executable, "-S", TOOLS / "train_tokenizer.py", tmp_path / "a.txt",
                             "--vocab-size", "260", "--out", tmp_path / "out"], text=True,
                            capture_output=True, env=os.environ | {"PACKTRAIN_PYTHON": environment})
    assert result.returncode == exit_code, result.stderr
    assert (tmp_path / "out" / "tokenizer.json").exists() == (exit_code == 0)
    assert exit_code == 0 or "there is no Python package tokenizers\n  Run launch/setup" in result.stderr


@pytest.mark.parametrize("misspelt, wanted", [
    ("--tokeniser", "unknown option --tokeniser, did you mean --tokenizer?"),
    ("--zzz", "unknown option --zzz\n")])
def test_an_option_that_is_misspelt_is_named(tmp_path, misspelt, wanted):
    result = run_tool("prepare.py", tmp_path, misspelt, tmp_path, "--out", tmp_path, exit_code=64)
    assert wanted in result.stderr


@pytest.mark.parametrize("arguments", [
    ["--processes", "0"], ["--max-examples", "0"], ["--validation-fraction", "0.1"],
    ["--validation-fraction", "1.5", "--validation-out", "v"], ["--unknown"],
    ["--validation-examples", "3"], ["--samples", "-1"], ["--validation-out", "v"],
    ["--validation-examples", "3", "--validation-fraction", "0.1", "--validation-out", "v"],
    ["--max-bad-fraction", "0.1"], ["--skip-bad-lines", "--max-bad-fraction", "2"]])
def test_usage_errors_have_their_exit_code(tokenizer_folder, tmp_path, arguments):
    run_tool("prepare.py", tmp_path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
             *arguments, exit_code=64)
