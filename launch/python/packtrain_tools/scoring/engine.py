"""Runs `packtrain score --log-probs` for requests."""

import json
import sys
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import yaml

from packtrain_tools.program import LAUNCHER, run_quietly
from packtrain_tools.scoring.forwards import Forwards

MOST_TOKENS = 16384  # of a micro-batch


@dataclass(frozen=True)
class Engine:
    program: str
    model: str  # a Hugging Face folder
    vocab_size: int
    max_length: int  # tokens of an input
    adapter: str | None = None  # a PEFT folder
    ranks: int = 1
    compute: str = "bf16"  # precision.compute
    settings: tuple[str, ...] = ()  # section.key=value

    def log_likelihoods(self, requests: Iterable[tuple[Sequence[int], Sequence[int]]]) -> list[tuple[float, bool]]:
        """Of (context, continuation), both at least one token: the sum over the continuation, and whether each of its
        tokens is the likeliest one. Raises ToolError."""
        forwards = Forwards(self.max_length)
        for context, continuation in requests:
            forwards.add(context, continuation)
        if not forwards.longest:
            return []
        with tempfile.TemporaryDirectory(prefix="packtrain-score-") as work:
            forwards.write(f"{work}/store", f"{work}/candidates.safetensors", self.vocab_size)
            self._write_config(f"{work}/config.yaml", f"{work}/store", f"{work}/run", forwards.longest)
            words = ["score", f"{work}/config.yaml", "--log-probs", "--candidates", f"{work}/candidates.safetensors",
                     "--json", "--out", f"{work}/scores.safetensors", *self.settings]
            launched = [LAUNCHER, "-n", str(self.ranks), "--program"] if self.ranks > 1 else []
            self._tell(json.loads(run_quietly([*launched, self.program, *words], "score"))["sets"][0])
            return forwards.read(f"{work}/scores.safetensors")

    def _tell(self, done: dict):
        speed = done["num_tokens"] / done["seconds"] if done["seconds"] else 0
        print(f"packtrain score: {done['num_examples']} inputs, {done['num_tokens']} tokens, {done['seconds']:.2f} s, "
              f"{speed:.0f} tokens/s without the start", file=sys.stderr, flush=True)

    def _write_config(self, path: str, store: str, run: str, longest: int):
        settings = {
            "model": {"path": self.model},
            "data": {"validation": store, "max_length": longest},
            "batch": {"max_tokens_per_micro_batch": max(MOST_TOKENS, longest)},
            "precision": {"compute": self.compute, "reduce": self.compute},
            "run": {"output": run},
        }
        if self.adapter:
            settings["adapter"] = {"kind": "lora", "path": self.adapter}
        with open(path, "w", encoding="utf-8") as stream:
            yaml.safe_dump(settings, stream, allow_unicode=True)
