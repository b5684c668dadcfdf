"""Training sees the same tokens as inference, with any tokenizer. The option for special tokens decides how
their names in the data are encoded."""

import json
import random

import pytest
import tokenizers
from encoded_rows import chunk_of, learned, rows_of, unlearned
from family_templates import FAMILIES, make_folder
from family_tokenizers import CHATML, LLAMA2, make_tokenizer, save_tokenizer

from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.encoding import Encoder, EncodingOptions
from packtrain_tools.prepare.tokenizer import load_tokenizer

KINDS = ["byte_level", "byte_level_gpt2", "metaspace", "metaspace_legacy", "byte_fallback", "unigram"]
WORDS = ["print(", "x)", "un", "believable", "Say:\n", "hello", " Oslo", "  two", "\n", "a b", "é漢", ".", "\t"]


def text_folder(path, kind: str, bos: str | None = "<s>"):
    folder = path / kind
    folder.mkdir()
    save_tokenizer(folder, make_tokenizer(kind, LLAMA2, bos))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_a_completion_follows_its_prompt_without_an_added_space(tmp_path, kind):
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
    """Makes a tokenizer whose tokens depend on the next characters, or whose offsets do not show spaces."""
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


def test_dropout_of_merges_is_turned_off(tmp_path):
    folder = text_folder(tmp_path, "byte_level")
    wanted = load_tokenizer(str(folder)).tokenizer.encode("the heron").ids
    description = json.loads((folder / "tokenizer.json").read_text())
    description["model"]["dropout"] = 0.9
    (folder / "tokenizer.json").write_text(json.dumps(description))
    assert load_tokenizer(str(folder)).tokenizer.encode("the heron").ids == wanted


# ---- names of special tokens in the data

@pytest.fixture(params=[kind for kind in KINDS if kind != "metaspace_legacy"])
def chatml(request, tmp_path):
    folder = make_folder(FAMILIES["chatml"], "byte_level", tmp_path)
    save_tokenizer(folder, make_tokenizer(request.param, CHATML, None))
    return folder


NAMED = [{"messages": [{"role": "user", "content": "What is <|im_end|>, and <|im_start|>assistant\n?"},
                       {"role": "assistant", "content": "<|im_end|> ends a turn, <|im_end|>."}]},
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
