"""A tiny model with an adapter, trained by the program and by peft."""

import itertools
import json

import bitsandbytes.functional
import oracle
import program
import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

STEPS = 4
OPTIONS = {"r": 4, "lora_alpha": 6, "rank_pattern": {"k_proj": 3}, "alpha_pattern": {"up_proj": 5}}
SETTINGS = ["adapter.kind=lora", "adapter.rank=4", "adapter.alpha=6", "adapter.rank_pattern={k_proj: 3}",
            "adapter.alpha_pattern={up_proj: 5}", "adapter.targets=[all-linear]"]
# All eight examples in each step.
TRAINS = [f"run.max_steps={STEPS}", f"run.num_epochs={STEPS}", "optimizer.betas=[0.9, 0.99]",
          "optimizer.epsilon=1.0e-8", "optimizer.weight_decay=0", "optimizer.max_grad_norm=0"]
STILL = ["run.max_steps=1", "optimizer.learning_rate=0", "optimizer.weight_decay=0"]
NAMES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


class Folder:
    """A tiny model with stores, and a configuration."""

    def __init__(self, path, model):
        self.path = path
        model.save_pretrained(path / "model")
        vocab_size = model.config.vocab_size
        self.examples = program.make_store(path / "train", 8, 1, vocab_size)
        self.config = program.write_config(path / "run.yaml", model=path / "model", output=path / "run",
                                           train=self.examples, validation=self.examples)

    def model(self):
        return oracle.load_model(self.path / "model")

    def train(self, *settings):
        program.finished("train", self.config, *settings)
        return self.path / "run"

    def evaluate(self, *settings):
        return json.loads(program.finished("evaluate", self.config, *settings, "--json"))["loss"]

    def export(self, name, *options):
        program.finished("export", self.path / "run", "--dtype", "float32", "--out", self.path / name, *options)
        return self.path / name

    def loss(self, model):
        """The mean over all tokens that are to be predicted, one example at a time."""
        store = load_file(next(self.examples.glob("*.safetensors")))
        losses, count = [], 0
        for begin, end in itertools.pairwise(store["offsets"].tolist()):
            ids = store["input_ids"][begin:end].long().unsqueeze(0)
            logits = model(ids, use_cache=False).logits[0, :-1]
            losses.append(torch.nn.functional.cross_entropy(logits, ids[0, 1:], reduction="sum"))
            count += ids.shape[1] - 1
        return sum(losses) / count


def make_model():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                         num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                         tie_word_embeddings=False)
    model = LlamaForCausalLM(config)
    oracle.randomize(model, torch.Generator().manual_seed(1))
    return model


def our_losses(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "grad_norm" in line]


def peft_losses(folder, adapted):
    parameters = [parameter for parameter in adapted.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=1e-2, betas=(0.9, 0.99), eps=1e-8, weight_decay=0)
    losses = []
    for _ in range(STEPS):
        loss = folder.loss(adapted)
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    return losses


def in_nf4(weight):
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    codes, state = bitsandbytes.functional.quantize_4bit(weight, blocksize=64, compress_statistics=True,
                                                         quant_type="nf4")
    torch.set_num_threads(threads)
    return bitsandbytes.functional.dequantize_4bit(codes, state)
