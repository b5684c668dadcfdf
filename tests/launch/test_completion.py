"""Completion of command lines in real shells, which ask the built program."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

LAUNCH = Path(__file__).resolve().parents[2] / "launch"
PROGRAM = os.environ["PACKTRAIN_PROGRAM"]

# Completes $1 as if it had been typed, and prints the answers.
BASH = """
source "$FOLDER/completion/packtrain.bash"
compopt() { :; }  # is only there while bash itself completes
COMP_LINE="$1" COMP_POINT=${#1}
_packtrain
printf '%s\\n' "${COMPREPLY[@]}"
"""
FISH = 'source $FOLDER/completion/packtrain.fish; complete -C $argv[1]'
# Types $1 into a zsh of its own, asks it for its list, and prints what the screen shows up to $2.
ZSH = """
zmodload zsh/zpty
zpty shell zsh -fi
zpty -w shell 'PS1=; autoload -U compinit; compinit -u -D; source $FOLDER/completion/packtrain.zsh'
zpty -w shell 'stty cols 200 rows 50; unsetopt list_ambiguous; setopt no_beep list_packed; print REA""DY'
zpty -r shell screen $'*READY\\r\\n'
zpty -w -n shell "$1"$'\\t\\t'
screen=
for (( tenths = 0; tenths < 800; tenths++ )); do
  while zpty -r -t shell part; do screen+=$part; done
  [[ $screen == *$2* ]] && break
  sleep 0.1
done
print -rn -- "$screen"
zpty -d shell
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


def run(command: list[str], cache: Path, folder: Path = LAUNCH, **options) -> str:
    environment = {**os.environ, "FOLDER": str(folder), "PACKTRAIN_CACHE": str(cache), "TERM": "dumb"}
    outcome = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100, **options)
    assert outcome.returncode == 0, outcome.stderr
    return outcome.stdout


def in_bash(line: str, cache: Path, **options) -> list[str]:
    return run(["bash", "--norc", "-c", BASH, "bash", line], cache, **options).split()


def bundle(folder: Path) -> Path:
    """A folder as a bundle has it: the program is found from the completion's own place. A build can be about to replace
    that of the build folder."""
    shutil.copytree(LAUNCH / "completion", folder / "completion")
    (folder / "bin").mkdir()
    (folder / "bin" / "packtrain").symlink_to(PROGRAM)
    return folder


def test_a_subcommand_is_completed(cache):
    assert in_bash(f"{PROGRAM} pl", cache) == ["plan"]
    everything = in_bash(f"{PROGRAM} ", cache)
    assert {"prepare", "train", "verify", "config", "--help"} <= set(everything)


def test_an_answer_that_failed_is_not_kept(tmp_path):
    folder = bundle(tmp_path / "bundle")
    assert in_bash("packtrain-run --rest", tmp_path, folder=folder, cwd="/") == []  # not on PATH
    assert in_bash(f"{LAUNCH}/packtrain-run --rest", tmp_path, folder=folder) == ["--restarts"]


def test_options_are_those_of_the_subcommand(cache):
    options = in_bash(f"{PROGRAM} plan my.yaml --", cache)
    assert {"--ranks", "--json", "--gpu-gib"} <= set(options)
    assert "--tokenizer" not in options
    assert {"--tokenizer", "--synthetic", "--pretokenized"} <= set(in_bash(f"{PROGRAM} prepare --", cache))


def test_keys_are_completed_after_the_configuration(cache):
    assert in_bash(f"{PROGRAM} train my.yaml run.num_e", cache) == ["run.num_epochs="]
    assert in_bash(f"{PROGRAM} train run.num_e", cache) == [], "a file is wanted"
    assert "batch.strategy" in in_bash(f"{PROGRAM} config --explain batch.", cache)


def test_keys_are_completed_after_the_model_of_tune(cache):
    assert in_bash(f"{PROGRAM} tune model data.jsonl --out runs/x run.num_e", cache) == ["run.num_epochs="]


def test_options_of_the_python_commands_are_completed(cache):
    for command, option in (("import", "--from"), ("chat", "--compare"), ("tune", "--lora"), ("push", "--card-only"),
                            ("score", "--log-probs")):
        assert option in in_bash(f"{PROGRAM} {command} --", cache)


def test_values_are_completed_after_the_key(cache):
    assert in_bash(f"{PROGRAM} train my.yaml batch.strategy=pad", cache) == ["padding", "padding_free"]
    assert in_bash(f"{PROGRAM} train my.yaml precision.deterministic=", cache) == ["true", "false"]
    assert in_bash(f"{PROGRAM} train my.yaml run.seed=", cache) == []


def test_packtrain_run_has_its_own_options_and_those_of_its_subcommand(cache, tmp_path):
    folder = bundle(tmp_path / "bundle")
    runner = LAUNCH / "packtrain-run"

    def answers(line: str) -> list[str]:
        return in_bash(line, cache, folder=folder)

    assert {"-n", "-x", "--restarts", "--doctor", "--hosts"} <= set(answers(f"{runner} -"))
    assert answers(f"{runner} -n 2 ver") == ["verify", "version"]
    assert answers(f"{runner} -n 2 my.yaml memory.rec") == ["memory.recompute="]
    assert "--examples" in answers(f"{runner} -n 2 verify --")


def test_what_the_program_said_is_kept_until_it_changes(tmp_path):
    program = tmp_path / "packtrain"
    program.write_text("#!/bin/sh\necho asked >> \"$0.log\"\nprintf 'Subcommands:\\n  train  x\\n\\n'\n")
    program.chmod(0o755)
    log = tmp_path / "packtrain.log"
    for _ in range(3):
        assert in_bash(f"{program} t", tmp_path) == ["train"]
    assert log.read_text() == "asked\n"
    os.utime(program, (2**31, 2**31))
    assert in_bash(f"{program} t", tmp_path) == ["train"]
    assert log.read_text() == "asked\nasked\n"


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not there: launch/setup --lint installs it")
def test_fish_completes_as_bash_does(cache):
    def answers(words: str) -> list[str]:
        return run(["fish", "--no-config", "-c", FISH, f"{PROGRAM} {words}"], cache).split()

    assert answers("pl") == ["plan"]
    assert answers("train my.yaml run.num_e") == ["run.num_epochs="]
    assert answers("train my.yaml batch.strategy=pad") == ["batch.strategy=padding", "batch.strategy=padding_free"]


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not there: launch/setup --lint installs it")
def test_zsh_completes_as_bash_does(cache):
    def assert_screen(words: str, wanted: str):
        shown = run(["zsh", "-f", "-c", ZSH, "zsh", f"{PROGRAM} {words}", wanted], cache)
        assert wanted in shown, shown

    assert_screen("train my.yaml run.num_e", "train my.yaml run.num_epochs=")
    assert_screen("train my.yaml batch.strategy=pad", "batch.strategy=padding_free")
