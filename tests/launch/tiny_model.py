"""A tiny model with a tokenizer and a chat template, and conversations that it learns by heart in seconds."""

import contextlib
import dataclasses
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
TURNS = [("ping", "pong"), ("one", "two"), ("red", "green"), ("up", "down")]
TEMPLATE = ("{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
            "{% if add_generation_prompt %}<|assistant|>{% endif %}")
NAMES = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>")
PATIENCE_S = 300

sys.path.insert(0, str(REPO / "launch" / "python"))

from packtrain_tools.errors import run_main  # noqa: E402  # the path is set above


@dataclasses.dataclass
class Output:
    stdout: str
    stderr: str


def in_process(tool, words, cwd, code=0, stdin=""):
    """Runs main() of a Python tool as its program does."""
    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        patch.chdir(cwd)
        patch.setattr(sys, "argv", [tool.PROGRAM, *map(str, words)])
        patch.setattr(sys, "stdin", io.StringIO(stdin))
        for name in ("PACKTRAIN_PYTHON", "HF_HUB_OFFLINE", "OMP_NUM_THREADS"):
            patch.setenv(name, environment()[name])
        try:
            ended = run_main(tool.PROGRAM, tool.main)
        except SystemExit as usage:  # of the parser
            ended = usage.code
    assert ended == code, out.getvalue() + err.getvalue()
    return Output(out.getvalue(), err.getvalue())


def environment(**more):
    return {**os.environ, "PACKTRAIN_PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1",
            "PYTHONDONTWRITEBYTECODE": "1", **more}


def packtrain(*words, cwd, code=0, stdin="", **more):
    done = subprocess.run([PROGRAM, *map(str, words)], cwd=cwd, capture_output=True, text=True, check=False, input=stdin,
                          env=environment(**more), timeout=PATIENCE_S)
    assert done.returncode == code, done.stdout + done.stderr
    return done


def make_model(folder, seed=0):
    """Random weights in float32, some 60,000 of them."""
    import tokenizers
    import torch
    import transformers

    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=300, special_tokens=["<|endoftext|>", *NAMES], show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator([word for turn in TURNS for word in turn], trainer)
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, eos_token="<|endoftext|>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(folder)
    torch.manual_seed(seed)
    config = transformers.LlamaConfig(hidden_size=48, intermediate_size=96, num_hidden_layers=2, num_attention_heads=2,
                                      num_key_value_heads=2, vocab_size=len(fast), max_position_embeddings=256,
                                      tie_word_embeddings=True, bos_token_id=0, eos_token_id=0)
    transformers.LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def hub_with(model, folder):
    """Makes a cache of the hub that holds the model as example/tiny. Returns the variables that name the cache."""
    place = folder / "hub" / "models--example--tiny"
    (place / "refs").mkdir(parents=True)
    (place / "refs" / "main").write_text("0" * 40)
    shutil.copytree(model, place / "snapshots" / ("0" * 40))
    return {"HF_HOME": str(folder), "HF_HUB_CACHE": str(folder / "hub")}


def write_conversations(path, times=8):
    lines = [json.dumps({"messages": [{"role": "user", "content": asked}, {"role": "assistant", "content": answered}]})
             for asked, answered in TURNS * times]
    path.write_text("\n".join(lines) + "\n")
    return path


CONFIG = """
model: {{path: {model}}}
{adapter}
data: {{train: store, validation: store, max_length: 64}}
batch: {{global_batch_size: 8, max_tokens_per_micro_batch: 512}}
optimizer: {{learning_rate: 1.0e-2, weight_decay: 0}}
schedule: {{name: constant}}
precision: {{compute: fp32, reduce: fp32}}
metrics: {{serve: false}}
checkpoint: {{save_steps: 0}}
run: {{output: {output}, max_steps: {steps}, evaluate_at_start: true}}
"""


def train(folder, output, adapter="", steps=40, model="model"):
    """`folder` holds `model` and `store`."""
    config = folder / f"{output}.yaml"
    config.write_text(CONFIG.format(model=model, adapter=adapter, output=output, steps=steps))
    packtrain("train", config.name, cwd=folder)
    return folder / output
