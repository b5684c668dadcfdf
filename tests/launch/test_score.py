"""`packtrain score --tasks`: the numbers of lm_eval's own model `hf`."""

import importlib.util
import json
import pathlib
import random
import shutil
import sys

import pytest
from tiny_model import PROGRAM, in_process, make_model, packtrain

import score as score_tool  # on the path by tiny_model

TASKS = pathlib.Path(__file__).resolve().parent / "score_tasks"
WINDOW = 48  # max_length of both models
TOLERANCE = 1e-3
WORDS = ["ping", "pong", "one", "two", "red", "green", "up", "down", "é", "\n", "twotwo"]


def text(chance, num_words):
    return " ".join(chance.choice(WORDS) for _ in range(num_words))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("score")
    make_model(folder / "model")
    shutil.copytree(TASKS, folder / "tasks")
    chance = random.Random(7)
    with open(folder / "pairs.jsonl", "w", encoding="utf-8") as stream:
        for number in range(24):
            stream.write(json.dumps({"asked": text(chance, 1 + number % 7), "right": number % 4, "text": text(chance, 40),
                                     "answers": [" " + text(chance, 1 + number % 3) for _ in range(4)]}) + "\n")
    for task in (folder / "tasks").glob("*.yaml"):
        task.write_text(task.read_text().replace("pairs.jsonl", str(folder / "pairs.jsonl")))
    return folder


@pytest.fixture(scope="module")
def models(folder):
    """lm_eval's model and ours, of the same folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("PACKTRAIN_PYTHON", sys.executable)
        patch.setenv("PACKTRAIN_PROGRAM", PROGRAM)
        from lm_eval.models.huggingface import HFLM
        from packtrain_tools.scoring import PacktrainModel
        theirs = HFLM(pretrained=str(folder / "model"), dtype="float32", device="cpu", batch_size=4, max_length=WINDOW)
        yield theirs, PacktrainModel(pretrained=str(folder / "model"), max_length=WINDOW, device="cpu")


def instances(kind, arguments):
    from lm_eval.api.instance import Instance
    return [Instance(request_type=kind, doc={}, arguments=one, idx=0) for one in arguments]


def assert_same(theirs, ours):
    assert len(theirs) == len(ours) > 0
    for (wanted, wanted_greedy), (found, greedy) in zip(theirs, ours):
        assert found == pytest.approx(wanted, abs=TOLERANCE)
        assert greedy == wanted_greedy


def log_likelihoods(model, pairs):
    return model.loglikelihood(instances("loglikelihood", pairs), disable_tqdm=True)


def compare(models, pairs):
    theirs, ours = (log_likelihoods(model, pairs) for model in models)
    assert_same(theirs, ours)
    return ours


def greedy_continuation(model, context, num_tokens):
    """Text that the model itself finds likeliest."""
    ids = model.tok_encode(context)
    for _ in range(num_tokens):
        import torch
        ids.append(int(model.model(torch.tensor([ids])).logits[0, -1].argmax()))
    return model.tokenizer.decode(ids)[len(context):]


def test_continuations_of_many_lengths(models):
    chance = random.Random(1)
    compare(models, [("ping" + text(chance, n % 9), " " + text(chance, 1 + n % 5)) for n in range(60)])


def test_continuations_of_one_token_that_share_their_context(models):
    pairs = [(context, answer) for context in ("ping", "red up", "one") for answer in (" ", "a", "b", "é", "z")]
    found = compare(models, pairs)
    assert len({value for value, _ in found}) > len(found) // 2


def test_one_text_with_contexts_of_several_lengths(models):
    """lm_eval 0.4.13 gets them one by one: where they share a pass, a shorter continuation gets the first rows of the
    longer one."""
    pairs = [("ping", "abc"), ("ping", "ab"), ("ping", "a"), ("pinga", "bc"), ("pingab", "c"), ("ping", "abc")]
    theirs = [found for pair in pairs for found in log_likelihoods(models[0], [pair])]
    assert_same(theirs, log_likelihoods(models[1], pairs))


def test_empty_contexts(models):
    compare(models, [("", "ping"), ("", "a"), ("", "<|endoftext|>ping"), ("", text(random.Random(2), 9))])


def test_contexts_that_are_longer_than_the_window_are_cut_on_the_left(models):
    chance = random.Random(3)
    compare(models, [(text(chance, 60), " " + text(chance, n)) for n in (1, 2, 5)] + [(text(chance, 60), "a")])


def test_greedy_continuations(models):
    said = greedy_continuation(models[0], "ping", 3)
    found = compare(models, [("ping", said), ("ping", said + "z")])
    assert [greedy for _, greedy in found] == [True, False]


def test_texts_that_are_longer_than_the_window(models):
    chance = random.Random(4)
    texts = [(text(chance, n),) for n in (1, 5, 30, 80)] + [("",)]
    theirs, ours = (model.loglikelihood_rolling(instances("loglikelihood_rolling", texts), disable_tqdm=True)
                    for model in models)
    assert ours == pytest.approx(theirs, abs=TOLERANCE * 10)
    assert ours[3] < ours[0] < 0 == ours[4]


def results_of(folder, *words, code=0):
    done = in_process(score_tool, [f"--program={PROGRAM}", *words, "--include-path", "tasks", "--out", "results.json"],
                      cwd=folder, code=code)
    return done, json.loads((folder / "results.json").read_text())["results"] if code == 0 else None


def test_tasks_have_the_results_of_lm_eval(folder, models):
    from lm_eval import simple_evaluate
    from lm_eval.tasks import TaskManager
    names = ["pairs_choice", "pairs_exact", "pairs_rolling"]
    done, found = results_of(folder, "model", "--tasks", ",".join(names), "--num-fewshot", 1, "--max-length", WINDOW)
    wanted = simple_evaluate(models[0], tasks=names, num_fewshot=1, log_samples=False,
                             task_manager=TaskManager(include_path=str(folder / "tasks")))["results"]
    for name in names:
        assert name in done.stdout
        figures = {key: value for key, value in wanted[name].items() if isinstance(value, float)}
        assert figures
        assert {key: found[name][key] for key in figures} == pytest.approx(figures, rel=TOLERANCE)


def test_the_program_starts_it(folder):
    done = packtrain("score", "model", "--tasks", "pairs_exact", "--include-path", "tasks", "--limit", "2", cwd=folder,
                     PYTHONPATH=":".join(sys.path))
    assert "pairs_exact" in done.stdout


def test_tasks_that_generate_are_refused_before_any_runs(folder):
    done, _ = results_of(folder, "model", "--tasks", "pairs_exact,pairs_written", code=64)
    assert "pairs_written: generates text (generate_until)" in done.stderr
    assert "pairs_exact" not in done.stdout


@pytest.mark.parametrize("words, message", [
    (["model", "--tasks", "pairs_exat"], "lm_eval has no task 'pairs_exat', did you mean pairs_exact?"),
    (["nowhere", "--tasks", "pairs_exact"], "nowhere: is no folder"),
    (["model", "STORE", "--tasks", "pairs_exact"], "got STORE, wanted section.key=value"),
    (["model", "--tasks", "pairs_exact", "--limit", "0"], "--limit is 0, wanted a number above 0"),
    (["model", "--tasks", "pairs_exact", "--best"], "--best is of runs, and model is a model")])
def test_wrong_words_are_refused(folder, words, message):
    done, _ = results_of(folder, *words, code=64)
    assert message in done.stderr


def test_a_missing_lm_eval_is_named(folder, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "lm_eval" else find(name))
    done, _ = results_of(folder, "model", "--tasks", "pairs_exact", code=69)
    assert "there is no Python package lm_eval" in done.stderr and "pip install lm_eval" in done.stderr


def test_a_failure_of_the_program_has_its_exit_code_and_reason(folder):
    done, _ = results_of(folder, "model", "batch.max_tokens_per_micro_batch=1", "--tasks", "pairs_exact", code=64)
    assert "batch.max_tokens_per_micro_batch is 1" in done.stderr


