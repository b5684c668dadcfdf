"""Which examples `packtrain prepare` keeps, and on which side: groups stay whole, and choices follow
from contents alone."""

import itertools
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
import tokenizers
from prepare_program import dump, run_tool, write_lines

from packtrain_tools.prepare import splitting
from packtrain_tools.prepare.examples import hashes_of_ids, make_examples
from packtrain_tools.prepare.selection import Selection
from packtrain_tools.prepare.splitting import (HELD_OUT, SAMPLED, NumberOfGroups, ShareOfGroups,
                                               coins)

SEED = 5
NUM_EXAMPLES = 3000


@pytest.fixture(autouse=True)
def small_pool(monkeypatch):
    monkeypatch.setattr(splitting, "POOL_SLACK", 30)


def numbered(numbers, groups=None):
    """An example of two ids for each number, which is its second id."""
    ids = [[7, number] for number in numbers]
    return make_examples(ids, [np.ones(2, np.uint8)] * len(ids), [0] * len(ids),
                         groups if groups is None else np.array(groups, np.uint64))


def numbers_of(parts):
    return [int(number) for part in parts for number in part.input_ids[1::2]]


def random_groups(generator, num_examples=NUM_EXAMPLES, largest=20):
    """Makes groups of 1 to `largest` examples each, in any order."""
    sizes = generator.integers(1, largest + 1, num_examples)
    groups = np.repeat(generator.integers(0, 2**63, num_examples, np.uint64), sizes)[:num_examples]
    return generator.permutation(groups)


def chunks_of(generator, numbers, groups):
    bounds = [0, *np.cumsum(generator.integers(1, 60, len(numbers))).tolist()]
    for begin, end in itertools.pairwise(bounds):
        if begin < len(numbers):
            yield numbered(numbers[begin:end], groups[begin:end])


def choose(choice, chunks):
    """Numbers of the others and of the chosen ones, each as they came."""
    parts = [choice.split(chunk) for chunk in chunks]
    parts += choice.finish()
    return tuple(numbers_of(side) for side in zip(*parts))


def choices(salt=HELD_OUT):
    return {"share": ShareOfGroups(0.2, SEED, salt), "number": NumberOfGroups(200, SEED, salt)}


@pytest.mark.parametrize("name", choices())
def test_a_group_is_never_divided(name):
    generator = np.random.default_rng(1)
    groups = random_groups(generator)
    others, chosen = choose(choices()[name], chunks_of(generator, range(NUM_EXAMPLES), groups))
    assert sorted(others + chosen) == list(range(NUM_EXAMPLES))
    assert not set(groups[others]) & set(groups[chosen])
    assert len(chosen) > 100


@pytest.mark.parametrize("number", [1, 10, 200, 2500])
@pytest.mark.parametrize("largest", [1, 20, 500])
def test_a_number_takes_whole_groups_in_the_order_of_their_coins(number, largest):
    generator = np.random.default_rng(2)
    groups = random_groups(generator, largest=largest)
    _, chosen = choose(NumberOfGroups(number, SEED, HELD_OUT),
                       chunks_of(generator, range(NUM_EXAMPLES), groups))
    coin = coins(groups, SEED)
    wanted = []
    for each in np.unique(coin):
        if len(wanted) < number:
            wanted += np.flatnonzero(coin == each).tolist()
    assert chosen == sorted(wanted)  # in the order of the source
    assert len(chosen) == number or largest > 1


def test_a_number_keeps_a_bounded_number_of_candidates():
    generator = np.random.default_rng(3)
    choice = NumberOfGroups(100, SEED, HELD_OUT)
    for chunk in chunks_of(generator, range(NUM_EXAMPLES), random_groups(generator)):
        choice.split(chunk)
        assert sum(part.num_examples for part in choice.pool) < 2 * (100 + 20) + 30


@pytest.mark.parametrize("name", choices())
def test_data_that_is_added_lets_no_new_group_of_the_old_data_be_chosen(name):
    generator = np.random.default_rng(4)
    groups = random_groups(generator)
    chosen = {}
    for number in (2000, NUM_EXAMPLES):
        _, chosen[number] = choose(choices()[name],
                                   chunks_of(generator, range(number), groups[:number]))
    old = [each for each in chosen[NUM_EXAMPLES] if each < 2000]
    assert set(old) <= set(chosen[2000])
    assert old == chosen[2000] or name == "number"


def test_the_sample_is_independent_of_what_is_held_out():
    groups = np.random.default_rng(5).integers(0, 2**63, 100_000, np.uint64)
    for seed in (0, 1):
        sampled = coins(groups, seed, SAMPLED) < 0.2 * 2.0**64
        held_out = coins(groups, seed, HELD_OUT) < 0.2 * 2.0**64
        assert abs(np.mean(sampled & held_out) - 0.04) < 4 * (0.04 * 0.96 / len(groups)) ** 0.5


def arguments_for(**options):
    defaults = {"max_examples": None, "deduplicate": False, "sample": None, "seed": SEED,
                "validation_fraction": None, "validation_examples": None, "sources": ["a"]}
    return SimpleNamespace(**defaults | options)


def test_copies_are_left_out_before_the_sample_is_taken():
    selection = Selection(arguments_for(deduplicate=True, sample=50, max_examples=40,
                                        validation_examples=10))
    # Groups by place, so that copies are in different ones.
    chunks = [numbered(np.arange(100), np.arange(begin, begin + 100)) for begin in (0, 100, 200)]
    parts = [selection.split(chunk) for chunk in chunks] + selection.finish()
    training, validation = (numbers_of(side) for side in zip(*parts))
    assert selection.num_duplicates == 200
    taken = training + validation
    assert len(taken) == len(set(taken)) == 40  # --max-examples after the sample
    assert len(validation) == 10  # of those
    _, sample = choose(NumberOfGroups(50, SEED, SAMPLED), [numbered(np.arange(100), np.arange(100))])
    assert sorted(taken) == sample[:40]


@pytest.mark.parametrize("options", [
    {"sample": 0.5, "deduplicate": True, "validation_examples": 100},
    {"sample": 400, "deduplicate": True, "validation_examples": 100, "max_examples": 350},
    {"sample": 400, "validation_fraction": 0.3}])
def test_a_restored_selection_continues_as_the_saved_one(tmp_path, options):
    generator = np.random.default_rng(6)
    numbers = generator.integers(0, 2000, NUM_EXAMPLES)
    chunks = list(chunks_of(generator, numbers, random_groups(generator)))
    results = []
    for is_interrupted in (False, True):
        selection = Selection(arguments_for(**options))
        parts = []
        for number, chunk in enumerate(chunks):
            parts.append(selection.split(chunk))
            if is_interrupted:
                state = json.loads(json.dumps(selection.save(str(tmp_path), number)))
                selection = Selection(arguments_for(**options))
                selection.restore(str(tmp_path), state)
        parts += selection.finish()
        results.append([[numbers_of([part]) for part in side] for side in zip(*parts)])
        assert selection.num_duplicates > 100 or not options.get("deduplicate")
    assert results[0] == results[1]


def test_the_hash_of_ids_depends_on_ids_order_and_number_alone():
    rows = [[1, 2, 3], [1, 2, 3], [3, 2, 1], [1, 2], [1, 2, 3, 0], [0], [0, 0]]
    examples = make_examples(rows, [np.full(len(row), i % 2, np.uint8) for i, row in enumerate(rows)],
                             [0] * len(rows))
    hashes = hashes_of_ids(examples.input_ids, examples.lengths)
    assert hashes[0] == hashes[1]
    assert len(set(hashes.tolist())) == len(rows) - 1
    assert len(hashes_of_ids(np.zeros(0, np.int32), np.zeros(0, np.int32))) == 0


def pairs(number, begin=0):
    return [{"prompt": f"The old owl {n}", "completion": f" saw {n} birds."}
            for n in range(begin, begin + number)]


def test_a_sample_does_not_depend_on_the_number_of_processes(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *pairs(3000))
    for processes in (1, 2):
        run_tool("prepare.py", source, "--tokenizer", tokenizer_folder, "--processes", processes,
                 "--out", tmp_path / f"store{processes}", "--sample", 100)
    for name in ("part-00000.safetensors", "store.json"):
        assert (tmp_path / "store1" / name).read_bytes() == (tmp_path / "store2" / name).read_bytes()
    assert len(dump(tmp_path / "store1")["examples"]) == 100


TEMPLATE = """{{- strftime_now('%d %b %Y') + '\n' }}
{%- for m in messages %}{{- m.role + ': ' + m.content + '<|endoftext|>' }}{% endfor %}
{%- if add_generation_prompt %}{{- 'assistant: ' }}{% endif %}"""


def hold_conversations_out(tokenizer_folder, folder, *options):
    """Numbers of the conversations, of each example for training and for validation."""
    (folder / "template.jinja").write_text(TEMPLATE)
    write_lines(folder / "chats.jsonl", *[{"messages": [
        {"role": role, "content": f"saw {n} birds"} for role in ["user", "assistant"] * 3]}
        for n in range(1000, 1040)])
    run_tool("prepare.py", folder / "chats.jsonl", "--tokenizer", tokenizer_folder, "--chat-template",
             folder / "template.jinja", "--out", folder / "store", "--validation-out", folder / "held",
             "--overwrite", *options)
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    return [[int(re.search(r"saw (\d+)", tokenizer.decode(example["input_ids"]))[1])
             for example in dump(folder / name)["examples"]] for name in ("store", "held")]


@pytest.mark.parametrize("held, least", [(["--validation-fraction", 0.3], 6),
                                         (["--validation-examples", 10], 10)])
def test_all_turns_of_a_conversation_are_on_one_side(tokenizer_folder, tmp_path, held, least):
    training, validation = hold_conversations_out(tokenizer_folder, tmp_path, "--train-on", "each-turn",
                                                  *held)
    assert not set(training) & set(validation)
    assert len(training + validation) == 120
    assert least <= len(validation) < least + 3 or held[0] == "--validation-fraction"
    assert all(validation.count(number) == 3 for number in validation)


def test_the_same_conversations_are_held_out_on_any_date(tokenizer_folder, tmp_path):
    sides = [hold_conversations_out(tokenizer_folder, tmp_path, "--validation-fraction", 0.3, "--date",
                                    day) for day in ("2024-01-01", "2025-02-02")]
    assert sides[0] == sides[1]


def test_a_share_is_taken_of_all_sources(tokenizer_folder, tmp_path):
    first = write_lines(tmp_path / "a.jsonl", *pairs(2000))
    second = write_lines(tmp_path / "b.jsonl", *pairs(1000, 2000))
    run_tool("prepare.py", first, second, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
             "--sample", 0.25)
    sources = [example["source"] for example in dump(tmp_path / "store")["examples"]]
    for source, number in zip(sorted(set(sources)), (2000, 1000)):
        assert abs(sources.count(source) - number / 4) < 4 * (number * 0.25 * 0.75) ** 0.5


@pytest.mark.parametrize("value", ["0", "0.0", "1.0", "-3", "1.5", "many", "nan"])
def test_a_sample_that_is_neither_number_nor_share_is_refused(tokenizer_folder, tmp_path, value):
    result = run_tool("prepare.py", tmp_path / "a.jsonl", "--tokenizer", tokenizer_folder, "--out",
                      tmp_path / "store", f"--sample={value}", exit_code=64)
    assert f"'{value}' is neither a number of examples" in result.stderr


def test_sources_that_gave_nothing_are_named(tokenizer_folder, tmp_path):
    sources = [write_lines(tmp_path / f"{name}.jsonl", *pairs(20)) for name in "abc"]
    arguments = [*sources, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
                 "--max-examples", 20]
    result = run_tool("prepare.py", *arguments)
    assert f"No example came from {sources[1]}, {sources[2]}: --max-examples was reached" in \
        result.stdout
    result = run_tool("prepare.py", *arguments, "--overwrite", "--json")
    assert json.loads(result.stdout)["sources_without_examples"] == list(map(str, sources[1:]))
    result = run_tool("prepare.py", *arguments[:-1], 60, "--overwrite")
    assert "No example came from" not in result.stdout


def test_columns_that_were_not_read_are_named(tokenizer_folder, tmp_path):
    source = write_lines(tmp_path / "a.jsonl", *[pair | {"score": 1, "id": 2} for pair in pairs(3)])
    arguments = [source, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store"]
    assert f"Columns of {source} that were not read: score, id." in \
        run_tool("prepare.py", *arguments).stdout
    result = run_tool("prepare.py", *arguments, "--overwrite", "--json")
    assert json.loads(result.stdout)["ignored_columns"] == {str(source): ["score", "id"]}


def test_validation_examples_that_are_training_examples_too_are_counted(tokenizer_folder, tmp_path):
    # The same tokens twice, with another mask: two groups.
    text = write_lines(tmp_path / "text.jsonl", *[
        {"text": pair["prompt"] + pair["completion"]} for pair in pairs(200)])
    learned = write_lines(tmp_path / "pairs.jsonl", *pairs(200))
    arguments = [text, learned, "--tokenizer", tokenizer_folder, "--out", tmp_path / "store",
                 "--validation-out", tmp_path / "held", "--validation-fraction", 0.5]
    result = run_tool("prepare.py", *arguments, "--json")
    training, validation = ([tuple(example["input_ids"]) for example in dump(tmp_path / name)["examples"]]
                            for name in ("store", "held"))
    number = sum(ids in set(training) for ids in validation)
    assert number > 20
    assert json.loads(result.stdout)["counts"]["overlaps"] == number
    assert json.loads((tmp_path / "store" / "store.json").read_text())["counts"]["overlaps"] == number
    assert "counts" not in json.loads((tmp_path / "held" / "store.json").read_text())
    result = run_tool("prepare.py", *arguments, "--overwrite")
    assert f"Validation examples with the same tokens as a training example: {number}." in result.stdout
