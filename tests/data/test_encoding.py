"""Tokens are those that a model meets when it is asked, whatever the tokenizer; weights, lengths and names
of special tokens do what their options say."""

import itertools
import json
import random
import time

import prepare_program  # noqa: F401  puts packtrain_tools on the path
import pytest
import tokenizers
from family_templates import FAMILIES, make_folder
from family_tokenizers import CHATML, LLAMA2, make_tokenizer, save_tokenizer
from prepare_program import dump, run_tool, write_lines

from packtrain_tools.chat.mask import ChatMask, MaskOptions
from packtrain_tools.chat.template import load_chat_template
from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.encoding import Encoder, EncodingOptions
from packtrain_tools.prepare.lengths import LengthLimits
from packtrain_tools.prepare.tokenizer import load_tokenizer
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.formats import find_format
from packtrain_tools.sources.readers import Reader

KINDS = ["byte_level", "byte_level_gpt2", "metaspace", "metaspace_legacy", "byte_fallback", "unigram"]
WORDS = ["print(", "x)", "un", "believable", "Say:\n", "hello", " Oslo", "  two", "\n", "a b", "é漢", ".", "\t"]


def text_folder(path, kind: str, bos: str | None = "<s>"):
    folder = path / kind
    folder.mkdir()
    save_tokenizer(folder, make_tokenizer(kind, LLAMA2, bos))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    return folder


def chunk_of(folder, path, rows: list[dict], options: EncodingOptions = EncodingOptions(),
             mask: MaskOptions = MaskOptions()):
    files, _ = list_files([str(write_lines(path / "rows.jsonl", *rows))])
    encoder = Encoder(str(folder), options)
    encoder.set_formats({file.path: find_format(file, None, []) for file in files})
    template = load_chat_template(str(folder), None, encoder.settings, {}, special_tokens=encoder.named_tokens())
    if template is not None:
        encoder.set_chat(ChatMask(template, mask, encoder.special_tokens(), encoder.added_tokens()), True)
    [chunk] = [encoder.encode(chunk) for chunk in Reader(files, None).chunks()]
    return chunk


def rows_of(chunk) -> list[tuple[list[int], list[int]]]:
    ends = list(itertools.accumulate(chunk.examples.lengths.tolist()))
    return [(chunk.examples.input_ids[end - length:end].tolist(), chunk.examples.loss_mask[end - length:end].tolist())
            for end, length in zip(ends, chunk.examples.lengths.tolist())]


def learned(row) -> list[int]:
    return [token for token, is_learned in zip(*row) if is_learned]


def unlearned(row) -> list[int]:
    return [token for token, is_learned in zip(*row) if not is_learned]


@pytest.mark.parametrize("kind", KINDS)
def test_a_completion_follows_its_prompt_without_a_space_that_nobody_wrote(tmp_path, kind):
    folder = text_folder(tmp_path, kind)
    oracle = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    generator = random.Random(1)
    pairs = [{"prompt": generator.choice(WORDS[:8]), "completion": "".join(generator.choices(WORDS, k=3)) + "z"}
             for _ in range(60)]
    for pair, row in zip(pairs, rows_of(chunk_of(folder, tmp_path, pairs)), strict=True):
        assert unlearned(row) == oracle.encode(pair["prompt"]).ids  # with its beginning-of-text token
        ids = row[0][1:-1]
        told, wanted = oracle.decode(ids), oracle.decode(oracle.encode(pair["prompt"] + pair["completion"]).ids[1:])
        assert told == wanted, pair


@pytest.mark.parametrize("kind", KINDS)
def test_a_beginning_or_an_end_that_a_text_has_is_not_given_twice(tmp_path, kind):
    folder = text_folder(tmp_path, kind)
    bos, eos = (load_tokenizer(str(folder)).tokenizer.token_to_id(token) for token in ("<s>", "</s>"))
    texts = [{"text": text} for text in ("a b", "<s>a b", "a b</s>", "<s>a b</s>", "<s>a b</s>\n")]
    chunk = chunk_of(folder, tmp_path, texts)
    for ids, _ in rows_of(chunk):
        assert (ids.count(bos), ids.count(eos), ids[0]) == (1, 1, bos)
    assert (chunk.counts["begun_already"], chunk.counts["ended_already"]) == (3, 3)
    [row] = rows_of(chunk_of(folder, tmp_path, [{"prompt": "<s>q", "completion": "a</s>\n"}]))
    assert row[0].count(bos) == 1 and learned(row)[-1] == eos


def spaced_tokenizer(kind: str) -> tokenizers.Tokenizer:
    """With tokens that depend on what follows them, or whose spaces offsets do not show."""
    made = make_tokenizer("byte_level_trimmed" if kind == "trimmed" else "byte_level_gpt2", CHATML, None)
    if kind == "prefix_space":
        made.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
    if kind == "added_line_feeds":
        made.add_tokens([tokenizers.AddedToken("\n\n", normalized=False)])
    return made


@pytest.mark.parametrize("kind", ["gpt2", "trimmed", "prefix_space", "added_line_feeds"])
@pytest.mark.parametrize("prompt", ["<|im_start|>assistant\n", "<|im_start|>assistant\n\n", "assistant: ", "assistant:"])
def test_tokens_before_a_turn_are_those_of_its_prompt_alone(tmp_path, kind, prompt):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    oracle = spaced_tokenizer(kind)
    save_tokenizer(folder, oracle)
    shown = prompt.replace("\n", "\\n")
    (folder / "chat_template.jinja").write_text(
        "{% for m in messages %}{% if m.role == 'user' %}{{ m.content }}{% else %}{{ '" + shown + "' ~ m.content ~ '<|im_end|>' }}"
        "{% endif %}{% endfor %}{% if add_generation_prompt %}{{ '" + shown + "' }}{% endif %}")
    answers = ["A heron.", "  two", "\n    return a", "...", "\n", "heron", " a"]
    rows = [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": answer}]} for answer in answers]
    for answer, row in zip(answers, rows_of(chunk_of(folder, tmp_path, rows)), strict=True):
        assert unlearned(row) == oracle.encode("q" + prompt, add_special_tokens=False).ids, answer
        assert oracle.decode(learned(row), skip_special_tokens=False).strip() == (answer + "<|im_end|>").strip()
        assert row[0] == unlearned(row) + learned(row)


def test_an_end_that_the_tokenizer_takes_for_plain_text_is_refused(tmp_path):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    made = make_tokenizer("byte_level", CHATML[:2], None)
    made.add_special_tokens([tokenizers.AddedToken("<|im_end|>", single_word=True)])
    save_tokenizer(folder, made)
    chunk = chunk_of(folder, tmp_path, [{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}])
    assert "is plain text" in chunk.bad[0][1].fault


FILES = {
    "config": ({"tokenizer_config.json": {"bos_token": "<s>", "eos_token": "</s>"}}, "</s>"),
    "map": ({"special_tokens_map.json": {"bos_token": "<s>", "eos_token": {"content": "</s>"}}}, "</s>"),
    "class": ({"tokenizer_config.json": {"tokenizer_class": "LlamaTokenizerFast"}}, "</s>"),
    "other_class": ({"tokenizer_config.json": {"tokenizer_class": "GPT2Tokenizer"}}, None),  # its token is not here
    "nothing": ({}, None)}


@pytest.mark.parametrize("name", FILES)
def test_the_end_token_is_found_wherever_a_folder_names_it(tmp_path, name):
    files, wanted = FILES[name]
    folder = text_folder(tmp_path, "metaspace")
    (folder / "tokenizer_config.json").unlink()
    for file, content in files.items():
        (folder / file).write_text(json.dumps(content))
    encoder = Encoder(str(folder))
    assert encoder.named_tokens().get("eos_token") == wanted
    if wanted is None:
        with pytest.raises(ToolError, match="names no end-of-text token"):
            encoder.check_end_token({"text"})
        encoder.check_end_token({"messages"})
        Encoder(str(folder), EncodingOptions(no_end_token=True)).check_end_token({"text"})
        options = EncodingOptions(end_token="</s>")
        [row] = rows_of(chunk_of(folder, tmp_path, [{"text": "a"}], options))
        assert row[0][-1] == load_tokenizer(str(folder)).tokenizer.token_to_id("</s>")


def test_tokens_that_other_files_add_have_the_ids_of_transformers(tmp_path):
    from transformers import AutoTokenizer
    folder = text_folder(tmp_path, "byte_level")
    size = load_tokenizer(str(folder)).vocab_size
    decoder = {str(size + i): {"content": token, "special": i == 0, "normalized": False, "lstrip": False,
                               "rstrip": i == 1, "single_word": False} for i, token in enumerate(["<|a|>", "<|b|>"])}
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"added_tokens_decoder": decoder}))
    loaded = load_tokenizer(str(folder))
    oracle = AutoTokenizer.from_pretrained(folder)
    assert loaded.vocab_size == len(oracle) == size + 2
    text = "x<|a|>y<|b|>  z"
    assert loaded.tokenizer.encode(text, add_special_tokens=False).ids == oracle(text, add_special_tokens=False)["input_ids"]
    wrong = {str(size + 5): decoder[str(size)]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"added_tokens_decoder": wrong}))
    with pytest.raises(ToolError, match=rf"the token '<\|a\|>' has the id {size + 5} .* and {size} with"):
        load_tokenizer(str(folder))


NAMED_TOKENS = {
    "in the vocabulary": {"eos_token": "heron", "bos_token": "<s>"},
    "nowhere": {"pad_token": "<pad>", "eos_token": "<e>", "bos_token": "<s>", "extra_special_tokens": ["<x>", "<y>"]},
    "with flags": {"eos_token": {"content": "<e>", "rstrip": True, "__type": "AddedToken"}, "bos_token": "<s>"},
    "of the model": {"bos_token": "<s>", "extra_special_tokens": {"image_token": "<image>"}, "audio_token": "<audio>"},
    "older list": {"additional_special_tokens": ["<x>", "bird"], "mask_token": "<mask>", "sep_token": "</s>"}}


@pytest.mark.parametrize("kind", ["byte_level", "metaspace"])
@pytest.mark.parametrize("case", NAMED_TOKENS)
def test_tokens_that_have_a_name_have_the_ids_of_transformers(tmp_path, kind, case):
    from transformers import AutoTokenizer
    folder = text_folder(tmp_path, kind)
    config = {"tokenizer_class": "PreTrainedTokenizerFast", **NAMED_TOKENS[case]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    loaded, oracle = load_tokenizer(str(folder)), AutoTokenizer.from_pretrained(folder)
    text = "a heron bird<e>  b<pad><x><y><image>c<audio>d<mask></s>"
    assert loaded.tokenizer.encode(text, add_special_tokens=False).ids == oracle(text, add_special_tokens=False)["input_ids"]
    assert loaded.vocab_size == len(oracle)
    assert (loaded.named.get("bos_token"), loaded.named.get("eos_token")) == (oracle.bos_token, oracle.eos_token)


def test_legacy_added_tokens_have_their_ids(tmp_path):
    folder = text_folder(tmp_path, "byte_level")
    size = load_tokenizer(str(folder)).vocab_size
    (folder / "added_tokens.json").write_text(json.dumps({"<|x|>": size}))
    assert load_tokenizer(str(folder)).tokenizer.encode("<|x|>", add_special_tokens=False).ids == [size]


# ---- names of special tokens in the data

@pytest.fixture(params=[kind for kind in KINDS if kind != "metaspace_legacy"])
def chatml(request, tmp_path):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    save_tokenizer(folder, make_tokenizer(request.param, CHATML, None))
    return folder


NAMED = [{"messages": [{"role": "user", "content": "What is <|im_end|>, and <|im_start|>assistant\n?"},
                       {"role": "assistant", "content": "<|im_end|> ends a turn<|im_end|>"}]},
         {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]}]


def test_names_of_special_tokens_are_counted_and_become_plain_text_on_request(chatml, tmp_path):
    loaded = load_tokenizer(str(chatml))
    start, end = (loaded.tokenizer.token_to_id(token) for token in ("<|im_start|>", "<|im_end|>"))
    as_tokens = chunk_of(chatml, tmp_path, NAMED)
    assert as_tokens.counts["special_tokens_in_data"] == 4
    assert rows_of(as_tokens)[0][0].count(end) == 5
    as_text = chunk_of(chatml, tmp_path, NAMED, EncodingOptions(special_in_data="plain"))
    assert as_text.counts["special_tokens_in_data"] == 4
    ids, mask = rows_of(as_text)[0]
    assert (ids.count(start), ids.count(end)) == (2, 2)
    told, wanted = (loaded.tokenizer.decode(each, skip_special_tokens=False) for each in (ids, rows_of(as_tokens)[0][0]))
    assert told.replace(" ", "") == wanted.replace(" ", "")  # some tokenizers put a space after each token
    assert [token for token, is_learned in zip(ids, mask) if is_learned].count(end) == 1
    assert rows_of(as_text)[1] == rows_of(as_tokens)[1]
    refused = chunk_of(chatml, tmp_path, NAMED, EncodingOptions(special_in_data="refuse"))
    assert len(refused.bad) == 1 and "holds the special token '<|im_end|>'" in refused.bad[0][1].fault


@pytest.mark.parametrize("kind", KINDS)
def test_names_of_special_tokens_in_texts_are_counted_and_become_plain_text_on_request(tmp_path, kind):
    folder = text_folder(tmp_path, kind)
    eos = load_tokenizer(str(folder)).tokenizer.token_to_id("</s>")
    rows = [{"text": "divided by </s> there"}, {"text": "no name"}]
    assert chunk_of(folder, tmp_path, rows).counts["special_tokens_in_data"] == 1
    plain = chunk_of(folder, tmp_path, rows, EncodingOptions(special_in_data="plain"))
    assert plain.counts["special_tokens_in_data"] == 1
    if plain.bad:  # this tokenizer has the name among its pieces
        assert "cannot encode" in plain.bad[0][1].fault
    else:
        assert rows_of(plain)[0][0].count(eos) == 1
    assert len(chunk_of(folder, tmp_path, rows, EncodingOptions(special_in_data="refuse")).bad) == 1


# ---- weights and choices

CHAT = [{"role": "system", "content": "Be"}, {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"},
        {"role": "tool", "content": "three"}, {"role": "assistant", "content": "four"}]


def passages(folder, chunk) -> list[tuple[str, int]]:
    """Text and mask byte of each passage that is learned."""
    tokenizer = load_tokenizer(str(folder)).tokenizer
    [(ids, mask)] = rows_of(chunk)
    groups = itertools.groupby(zip(ids, mask), key=lambda pair: pair[1])
    return [(tokenizer.decode([token for token, _ in pairs], skip_special_tokens=False), byte)
            for byte, pairs in groups if byte]


@pytest.fixture
def folder(tmp_path):
    return make_folder(FAMILIES["chatml"], "byte_level", tmp_path)


def with_weight(turn: int, weight) -> list[dict]:
    return [message | {"weight": weight} if i == turn else message for i, message in enumerate(CHAT)]


@pytest.mark.parametrize("messages, options, wanted", [
    (CHAT, {}, [("two<|im_end|>", 1), ("four<|im_end|>", 1)]),
    (with_weight(2, 0.25), {}, [("two<|im_end|>", 26), ("four<|im_end|>", 1)]),
    (with_weight(2, 0), {}, [("four<|im_end|>", 1)]),
    (CHAT, {"also_train_on": ("tool",)}, [("two<|im_end|>", 1), ("three<|im_end|>", 1), ("four<|im_end|>", 1)]),
    (with_weight(3, 0.5), {}, [("two<|im_end|>", 1), ("three<|im_end|>", 51), ("four<|im_end|>", 1)]),
    (CHAT, {"train_on": "last"}, [("four<|im_end|>", 1)])])
def test_messages_are_learned_by_their_role_and_weight(folder, tmp_path, messages, options, wanted):
    chunk = chunk_of(folder, tmp_path, [{"messages": messages}], mask=MaskOptions(**options))
    assert passages(folder, chunk) == wanted


def test_all_is_learned_up_to_the_end_of_the_last_message(folder, tmp_path):
    chunk = chunk_of(folder, tmp_path, [{"messages": CHAT}], mask=MaskOptions("all"))
    [(text, byte)] = passages(folder, chunk)
    assert text.startswith("<|im_start|>system\nBe") and text.endswith("four<|im_end|>") and byte == 1
    chunk = chunk_of(folder, tmp_path, [{"messages": with_weight(1, 0)}], mask=MaskOptions("all"))
    told = passages(folder, chunk)
    assert [byte for _, byte in told] == [1, 1]
    assert told[0][0].endswith("<|im_start|>user\n") and told[1][0].startswith("\n<|im_start|>assistant")


def test_weights_of_examples_multiply_those_of_messages_and_are_rounded_to_hundredths(folder, tmp_path):
    rows = [{"messages": with_weight(2, 0.5), "weight": 0.5}]
    assert [byte for _, byte in passages(folder, chunk_of(folder, tmp_path, rows))] == [26, 51]
    rows = [{"messages": CHAT, "weight": 0.333}]
    chunk = chunk_of(folder, tmp_path, rows)
    assert {byte for _, byte in passages(folder, chunk)} == {34} and chunk.counts["rounded_weights"] == 1
    chunk = chunk_of(folder, tmp_path, [{"messages": CHAT, "weight": 0}])
    assert (len(rows_of(chunk)), chunk.num_skipped) == (0, 1)


def test_a_weighted_store_says_so_and_a_plain_one_does_not(folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", {"messages": with_weight(2, 0.25)}, {"messages": CHAT})
    run_tool("prepare.py", source, "--tokenizer", folder, "--out", tmp_path / "store")
    info = json.loads((tmp_path / "store" / "store.json").read_text())
    assert info["requires"] == ["loss_weights"] and info["loss_weights"][26] == 0.25
    assert 26 in dump(tmp_path / "store")["examples"][0]["loss_mask"]
    source = write_lines(tmp_path / "b.jsonl", {"messages": CHAT})
    run_tool("prepare.py", source, "--tokenizer", folder, "--out", tmp_path / "plain")
    assert not {"requires", "loss_weights"} & json.loads((tmp_path / "plain" / "store.json").read_text()).keys()


# ---- lengths

LONG = [{"role": "system", "content": "Be"}] + [
    {"role": role, "content": f"{role} {number}"} for number in range(8) for role in ("user", "assistant")]


def limited(folder, tmp_path, too_long: str, max_length: int, messages=LONG, train_on="assistant"):
    options = EncodingOptions(limits=LengthLimits(1, max_length, too_long))
    return chunk_of(folder, tmp_path, [{"messages": messages}], options, MaskOptions(train_on))


def text_of(folder, chunk) -> str:
    [(ids, _)] = rows_of(chunk)
    return load_tokenizer(str(folder)).tokenizer.decode(ids, skip_special_tokens=False)


@pytest.mark.parametrize("max_length", range(60, 420, 25))
def test_long_conversations_lose_whole_turns_and_keep_their_system_prompt(folder, tmp_path, max_length):
    oldest = limited(folder, tmp_path, "turns", max_length)
    last = limited(folder, tmp_path, "last-turns", max_length)
    if not rows_of(oldest):  # not even one exchange fits
        assert "no shorter conversation of whole turns" in oldest.bad[0][1].fault
        return
    for chunk, kept in ((oldest, range(7, -1, -1)), (last, range(8))):
        text = text_of(folder, chunk)
        assert len(rows_of(chunk)[0][0]) <= max_length and text.startswith("<|im_start|>system\nBe<|im_end|>")
        numbers = [number for number in range(8) if f"user {number}" in text]
        assert sorted(numbers) == sorted(list(kept)[:len(numbers)])
        assert all(f"assistant {number}<|im_end|>" in text for number in numbers)
        assert chunk.counts.get("cut_turns", 0) == 2 * (8 - len(numbers))
        whole = limited(folder, tmp_path, "refuse", 10**6, [LONG[0], *LONG[1:1 + 2 * (len(numbers) + 1)]])
        assert len(numbers) == 8 or len(rows_of(whole)[0][0]) > max_length  # one exchange more does not fit


def test_each_turn_is_shortened_by_itself(folder, tmp_path):
    chunk = limited(folder, tmp_path, "turns", 120, train_on="each-turn")
    assert len(rows_of(chunk)) == 8
    assert all(len(ids) <= 120 for ids, _ in rows_of(chunk))


def test_what_is_too_long_is_refused_dropped_or_cut(folder, tmp_path):
    assert "wanted at most 100" in limited(folder, tmp_path, "refuse", 100).bad[0][1].fault
    assert limited(folder, tmp_path, "drop", 100).counts["dropped_too_long"] == 1
    chunk = limited(folder, tmp_path, "truncate", 100)
    assert (len(rows_of(chunk)[0][0]), chunk.counts["truncated"]) == (100, 1)
    assert limited(folder, tmp_path, "truncate", 20).counts["cut_to_nothing"] == 1
    options = EncodingOptions(limits=LengthLimits(min_length=10**5))
    assert chunk_of(folder, tmp_path, [{"messages": CHAT}], options).counts["too_short"] == 1


# ---- whatever comes

def odd_text(generator: random.Random) -> str:
    pieces = ["\ud800", "\udfff", "\x00", "\x1b[31m", "<|im_end|>", "<think>", "</think>", "{{ 7 }}", "{% if", "\r\n", " ",
              "\u2028", "漢", "é", "a", "</s>", "\ufdd0", "🐦\u200d⬛", "\t", "[INST]", "'", '"', "\\u"]
    return "".join(generator.choices(pieces, k=generator.randrange(6)))


def odd_value(generator: random.Random, depth: int = 3):
    kind = generator.randrange(7 if depth else 5)
    if kind < 2:
        return odd_text(generator)
    if kind < 5:
        return generator.choice([None, True, 0, -1, 10**30, 1e400, float("nan"), 0.1])
    if kind == 5:
        return [odd_value(generator, depth - 1) for _ in range(generator.randrange(3))]
    return {odd_text(generator): odd_value(generator, depth - 1) for _ in range(generator.randrange(3))}


def odd_chat(generator: random.Random) -> dict:
    messages = []
    for _ in range(generator.randrange(1, 6)):
        message = {"role": generator.choice(["system", "user", "assistant", "assistant", "tool"]),
                   "content": generator.choice([odd_text(generator), None, [{"type": "text", "text": odd_text(generator)}]])}
        if generator.random() < 0.3:
            message["reasoning_content"] = odd_text(generator)
        if generator.random() < 0.3:
            message["tool_calls"] = [{"function": {"name": odd_text(generator), "arguments": odd_value(generator)}}]
        messages.append(message)
    tools = [{"type": "function", "function": {"name": odd_text(generator), "parameters": odd_value(generator)}}]
    return {"messages": messages} | ({"tools": tools} if generator.random() < 0.3 else {})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_odd_conversation_is_a_sound_example_or_a_named_bad_line(tmp_path, name):
    folder = make_folder(FAMILIES[name], FAMILIES[name].tokenizers[-1], tmp_path)
    generator = random.Random(name)
    rows = [odd_chat(generator) for _ in range(60)]
    for special, train_on in (("token", "assistant"), ("plain", "each-turn"), ("refuse", "all")):
        chunk = chunk_of(folder, tmp_path, rows, EncodingOptions(special_in_data=special), MaskOptions(train_on))
        assert all(bad.fault for _, bad in chunk.bad)
        for ids, mask in rows_of(chunk):
            assert len(ids) == len(mask) and any(mask[1:])


def test_the_time_of_a_conversation_grows_with_its_turns_and_not_with_their_square(tmp_path):
    folder = make_folder(FAMILIES["qwen2_5"], FAMILIES["qwen2_5"].tokenizers[0], tmp_path)

    def seconds(num_answers: int) -> float:
        messages = [{"role": role, "content": f"{role} says {number} and more"}
                    for number in range(num_answers) for role in ("user", "assistant")]
        chunk_of(folder, tmp_path, [{"messages": messages}])
        begin = time.process_time()
        for _ in range(3):
            [row] = rows_of(chunk_of(folder, tmp_path, [{"messages": messages}]))
        assert row[1].count(0) > num_answers
        return time.process_time() - begin

    few, many = seconds(50), seconds(800)
    assert many < 16 * 4 * max(few, 0.02)
