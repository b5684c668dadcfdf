"""`packtrain chat`: answers of runs, models and adapters."""

import json
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile

import pytest
from tiny_model import PROGRAM, TURNS, environment, in_process, make_model, packtrain, train, write_conversations

import chat as chat_tool  # on the path by tiny_model
from packtrain_tools.talk import answers
from packtrain_tools.showing import printable_text

LORA = "adapter: {kind: lora, rank: 16, alpha: 64, targets: [all-linear]}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("chat")
    make_model(folder / "model")
    packtrain("prepare", write_conversations(folder / "chats.jsonl"), "--tokenizer", "model", "--out", "store", cwd=folder)
    train(folder, "run")
    train(folder, "lora", LORA, steps=80)
    packtrain("export", "run", "--out", "exported", "--tokenizer", "model", cwd=folder)
    packtrain("export", "lora", "--out", "adapter", cwd=folder)
    return folder


def chat(folder, *words, code=0, **more):
    """Runs the tool in this process, since it imports torch for seconds."""
    words = [f"--program={PROGRAM}", *words, "--device", "cpu", "--max-new-tokens", 8]
    return in_process(chat_tool, words, cwd=folder, code=code, **more)


def test_the_program_starts_it(folder):
    done = packtrain("chat", "run", "--prompt", "ping", "--device", "cpu", "--max-new-tokens", 8, cwd=folder)
    assert done.stdout == "pong\n"


@pytest.mark.parametrize("source", [["run"], ["exported"], ["lora"], ["adapter"], ["model", "--adapter", "adapter"]],
                         ids=" ".join)
def test_each_kind_of_source_answers_as_it_was_trained(folder, source):
    for asked, answered in TURNS:
        assert chat(folder, *source, "--prompt", asked).stdout == f"{answered}\n"


def test_a_checkpoint_answers_as_its_run(folder):
    (checkpoint,) = (folder / "run" / "checkpoints").glob("step-*")
    assert chat(folder, checkpoint, "--prompt", "ping").stdout == "pong\n"


@pytest.mark.parametrize("source", [["run"], ["lora"], ["adapter"], ["model", "--adapter", "adapter"],
                                    ["exported", "--base", "model"]], ids=" ".join)
def test_compare_shows_the_answer_of_the_base_too(folder, source):
    base = chat(folder, "model", "--prompt", "ping").stdout
    assert base != "pong\n"
    assert chat(folder, *source, "--compare", "--prompt", "ping").stdout == f"--- base\n{base}--- trained\npong\n"


def test_each_line_of_the_input_is_a_turn(folder):
    assert chat(folder, "run", stdin="ping\n/new\nred\n").stdout == "pong\ngreen\n"


def test_a_terminal_asks_for_each_turn(folder):
    here, there = pty.openpty()
    job = subprocess.Popen([PROGRAM, "chat", "exported", "--device", "cpu"], cwd=folder, stdin=there, stdout=there, stderr=there,
                           env=environment(TERM="dumb"), start_new_session=True)
    os.close(there)
    seen = b""
    for typed, awaited in ((b"", b"> "), (b"ping\n", b"pong\r\n> "), (b"/new\n", b"> "), (b"\x04", b"")):
        os.write(here, typed)
        while awaited not in seen:
            assert select.select([here], [], [], 120)[0], seen
            seen += os.read(here, 1024)
        seen = b""
    assert job.wait(timeout=60) == 0
    os.close(here)


def test_an_answer_is_shown_while_it_is_generated(folder):
    """Random weights at a high temperature write words of several lengths, so that there is more than one piece."""
    pieces = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(answers, "show", lambda text, stream_end=False: pieces.append(text))
        conversation = answers.Conversation(str(folder / "model"), "cpu")
        conversation.load()
        said = conversation.answer("ping", answers.Sampling(32, 5.0, 1.0, 3))
    assert len(pieces) > 2 and "".join(pieces).strip() == said.strip()


def test_earlier_turns_are_in_the_prompt(folder):
    """Echoes the prompt: the template alone decides, so that no training is needed."""
    echo = folder / "echo"
    shutil.copytree(folder / "exported", echo)
    (echo / "chat_template.jinja").write_text("{{ raise_exception('saw ' ~ messages | map(attribute='content') | join(','))"
                                              " if messages | length > 1 else '<|user|>ping<|end|><|assistant|>' }}")
    assert "saw first,pong,second" in chat(folder, "echo", stdin="first\nsecond\n", code=65).stderr
    assert "saw Be brief.,first" in chat(folder, "echo", "--system", "Be brief.", stdin="first\n", code=65).stderr


def test_the_chat_template_of_the_store_is_used(folder):
    """The data was prepared with another template than the model's own."""
    other = folder / "other.jinja"
    other.write_text("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}!<|end|>{% endfor %}"
                     "{% if add_generation_prompt %}<|assistant|>{% endif %}")
    packtrain("prepare", "chats.jsonl", "--tokenizer", "model", "--chat-template", other, "--out", "store", "--overwrite",
              cwd=folder)
    train(folder, "marked")
    assert chat(folder, "marked", "--prompt", "up").stdout == "down!\n"
    packtrain("prepare", "chats.jsonl", "--tokenizer", "model", "--out", "store", "--overwrite", cwd=folder)


def test_without_a_chat_template_a_text_is_continued(folder):
    plain = folder / "plain"
    shutil.copytree(folder / "exported", plain)
    (plain / "chat_template.jinja").unlink()
    done = chat(folder, "plain", "--prompt", "<|user|>one<|end|><|assistant|>")
    assert done.stdout == "two\n"
    assert "there is no chat template" in done.stderr


def test_the_same_seed_samples_the_same_answer(folder):
    answers = {chat(folder, "model", "--prompt", "ping", "--temperature", 1, "--seed", seed).stdout for seed in (1, 1, 2)}
    assert len(answers) == 2


def test_the_prompt_can_come_from_standard_input(folder):
    assert chat(folder, "exported", "--prompt", "-", stdin="ping").stdout == "pong\n"


def test_a_conversation_that_is_too_long_is_named(folder):
    said = chat(folder, "exported", "--prompt", "word " * 120, code=64).stderr
    assert "the model takes 256" in said


def test_an_answer_is_as_long_as_the_model_takes(folder):
    done = in_process(chat_tool, [f"--program={PROGRAM}", "model", "--prompt", "ping", "--device", "cpu"], cwd=folder)
    assert done.stdout.strip() or done.stdout == "\n"  # 512 new tokens would be too many


def test_code_of_a_folder_is_not_run_and_pickles_are_not_read(folder):
    unsafe = folder / "unsafe"
    shutil.copytree(folder / "exported", unsafe)
    (unsafe / "model.safetensors").rename(unsafe / "pytorch_model.bin")
    assert "cannot load it" in chat(folder, "unsafe", "--prompt", "ping", code=65).stderr
    config = json.loads((unsafe / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Model"}}
    (unsafe / "config.json").write_text(json.dumps(config))
    (unsafe / "own.py").write_text("import pathlib\npathlib.Path('ran').touch()\n")
    assert "cannot load it" in chat(folder, "unsafe", "--prompt", "ping", code=65).stderr
    assert not (folder / "ran").exists()


def test_control_characters_of_a_model_do_not_reach_the_terminal():
    assert printable_text("a\x1b[31m\tb\n") == "a\\x1b[31m\tb\n"


@pytest.mark.parametrize("words, code, what", [
    (["nowhere", "--prompt", "a"], 64, "nowhere: is no folder"),
    (["store", "--prompt", "a"], 66, "wanted a checkpoint"),
    (["model", "--compare", "--prompt", "a"], 64, "Name its folder with --base DIR"),
    (["model", "--best", "--prompt", "a"], 64, "--best is of runs"),
    (["run", "--adapter", "x", "--prompt", "a"], 64, "trains a whole model"),
    (["adapter", "--adapter", "x", "--prompt", "a"], 64, "is an adapter itself"),
    (["model", "--prompt", " "], 64, "--prompt is empty"),
    (["model", "--temperature", "-1"], 64, "--temperature is -1"),
    (["model", "--top-p", "0"], 64, "--top-p is 0"),
    (["model", "--devise", "cpu"], 64, "did you mean --device?"),
], ids=lambda value: " ".join(value) if isinstance(value, list) else None)
def test_wrong_calls_are_refused_in_words(folder, words, code, what):
    assert what in chat(folder, *words, code=code).stderr


@pytest.mark.parametrize("text", ["model: 3\ndata: []\nadapter: x\nadapters: []\n", "- a\n", "a: [", "model: {path: 7}\n"])
def test_a_configuration_of_a_run_that_is_damaged_is_no_traceback(folder, tmp_path, text):
    shutil.copytree(folder / "run", tmp_path / "run")
    (tmp_path / "run" / "config.yaml").write_text(text)
    said = chat(tmp_path, "run", "--prompt", "a", code=65).stderr
    assert "is no YAML" in said or "have a tokenizer here" in said


def test_an_adapter_whose_model_is_gone_asks_for_it(folder):
    moved = folder / "moved"
    shutil.copytree(folder / "adapter", moved)
    settings = json.loads((moved / "adapter_config.json").read_text())
    (moved / "adapter_config.json").write_text(json.dumps({**settings, "base_model_name_or_path": "gone"}))
    assert "--base DIR" in chat(folder, "moved", "--prompt", "a", code=65).stderr
    assert chat(folder, "moved", "--base", "model", "--prompt", "ping").stdout == "pong\n"


def test_what_was_exported_is_removed_at_the_end(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    chat(folder, "run", "--prompt", "ping")
    assert list(pathlib.Path(tmp_path).iterdir()) == []
