"""Lines that `packtrain prepare` cannot read: named, or skipped, listed and counted on request."""

import json

import pytest
from prepare_program import dump, run_tool

BAD_LINES = {
    "cut_short": (b'{"text": ', "is no valid JSON"),
    "list": (b'[1]', "is a list, wanted a JSON object"),
    "unknown_key": (b'{"txt": "x"}', "the columns 'txt'; wanted 'text'"),
    "no_completion": (b'{"prompt": "x"}', "has the columns 'prompt'"),
    "both_kinds": (b'{"text": "x", "prompt": "y", "completion": "z"}', "the columns 'text', 'prompt'"),
    "number": (b'{"text": 3}', "'text' is 3, wanted a string"),
    "null": (b'{"text": null}', "'text' is null, wanted a string"),
    "other_format": (b'{"prompt": "x", "completion": "y"}', "others than the file's first: 'text'"),
    "twice": (b'{"text": "x", "text": "y"}', "the key 'text' appears twice"),
    "surrogate": (b'{"text": "\\ud800"}', "half of a surrogate pair"),
    "not_utf8": (b'{"text": "\xff"}', "is not UTF-8: byte 0xff"),
    "deep": (b'[' * 100_000, "is nested too deeply"),
}


def expect_bad_line(tokenizer_folder, tmp_path, name, *options):
    line, message = BAD_LINES[name]
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n\n' + line + b'\n{"text": 1}\n')
    result = run_tool("prepare.py", path, "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", *options, exit_code=65)
    assert f"packtrain prepare: {path}:3: " in result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (tmp_path / "store" / "store.json").exists()


@pytest.mark.parametrize("name", BAD_LINES)
def test_a_bad_line_is_named(tokenizer_folder, tmp_path, name):
    expect_bad_line(tokenizer_folder, tmp_path, name, "--processes", 1)


def test_a_bad_line_found_by_a_worker_process_is_named(tokenizer_folder, tmp_path):
    expect_bad_line(tokenizer_folder, tmp_path, "number", "--processes", 3)


def test_a_bad_byte_in_a_text_is_named_by_its_line(tokenizer_folder, tmp_path):
    (tmp_path / "a.txt").write_bytes(b"one\n%\ntwo\nthr\xe9e\n")
    result = run_tool("prepare.py", tmp_path / "a.txt", "--separator", "%", "--tokenizer",
                      tokenizer_folder, "--out", tmp_path / "store", exit_code=65)
    assert f"{tmp_path / 'a.txt'}:4: is not UTF-8: byte 0xe9" in result.stderr


def prepare_bad_lines(tokenizer_folder, tmp_path, *options, exit_code=0):
    """All of BAD_LINES among good ones, in a file with a byte order mark and CRLF."""
    path = tmp_path / "a.jsonl"
    lines = [line for bad, _ in BAD_LINES.values() for line in (b'{"text": "good one"}', bad)]
    path.write_bytes(b"\xef\xbb\xbf" + b"".join(line + b"\r\n" for line in lines))
    return path, run_tool("prepare.py", path, "--tokenizer", tokenizer_folder, "--out",
                          tmp_path / "store", "--json", *options, exit_code=exit_code)


@pytest.mark.parametrize("processes", [1, 3])
def test_bad_lines_are_skipped_listed_and_counted_on_request(tokenizer_folder, tmp_path, processes):
    path, result = prepare_bad_lines(tokenizer_folder, tmp_path, "--skip-bad-lines",
                                     "--max-bad-fraction", "0.5", "--processes", processes)
    assert json.loads(result.stdout)["num_bad_lines"] == len(BAD_LINES)
    store = dump(tmp_path / "store")
    assert len(store["examples"]) == len(BAD_LINES) == store["num_bad_lines"]
    content = path.read_bytes()
    quarantine = (tmp_path / "store" / "bad-lines.jsonl").read_text().splitlines()
    for i, ((line, message), entry) in enumerate(zip(BAD_LINES.values(), map(json.loads, quarantine), strict=True)):
        assert (entry["file"], entry["line"]) == (str(path), 2 * i + 2)
        assert content[entry["byte"]:entry["byte"] + entry["num_bytes"]] == line + b"\r"
        assert message in entry["fault"]
        assert len(entry["text"]) <= 1000
    run_tool("prepare.py", path, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
             "--overwrite", exit_code=65)
    assert not (tmp_path / "store" / "bad-lines.jsonl").exists()


def test_more_bad_lines_than_allowed_are_an_error(tokenizer_folder, tmp_path):
    _, result = prepare_bad_lines(tokenizer_folder, tmp_path, "--skip-bad-lines",
                                  "--max-bad-fraction", "0.49", exit_code=65)
    assert f"{len(BAD_LINES)} of {2 * len(BAD_LINES)} lines are bad" in result.stderr
    assert "a.jsonl:2: is no valid JSON" in result.stderr
    assert not (tmp_path / "store" / "store.json").exists()


def test_a_line_has_a_limit_and_a_place(tokenizer_folder, tmp_path, monkeypatch):
    from packtrain_tools.sources import formats, readers, source_file
    monkeypatch.setattr(readers, "MAX_LINE_BYTES", 50)
    monkeypatch.setattr(formats, "MAX_LINE_BYTES", 50)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"text": "good"}\n{"text": "' + b"x" * 3_000_000 + b'"}\n{"text": "good"}')
    records = list(readers.read_records(source_file.source_file(0, str(path)), None))
    assert [(r.line, r.byte, r.num_bytes) for r in records] == [
        (1, 0, 17), (2, 17, 3_000_013), (3, 3_000_030, 16)]
    assert len(records[1].data) == 51  # of a gigabyte no more than this is ever in memory
    with pytest.raises(formats.BadRecord, match="has 3000013 bytes, wanted at most 50"):
        formats.decode(records[1])
    assert formats.decode(records[2]).text == "good"
