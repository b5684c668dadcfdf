"""What benchmarks/train/run measures. A case is one model shape at one number of tokens a step."""

import dataclasses

SHAPES = {  # name in benchmarks/peers/shapes.py, layers (None: all), config
    "1b": ("llama-3.2-1b", None, "llama-3.2-1b-short.yaml"),
    "8b-8-layers": ("llama-3-8b", 8, "llama-3-8b-8-layers-short.yaml"),
    "qwen-0.5b": ("qwen2.5-0.5b", None, "qwen2.5-0.5b-short.yaml"),
}
VOCAB_SIZES = {"1b": 128256, "8b-8-layers": 128256, "qwen-0.5b": 151936}
TOKENS = {
    "1b": (32768, 16384, 4096, 2048),
    "8b-8-layers": (16384, 4096),
    "qwen-0.5b": (16384, 4096, 2048, 1024),
}
LONGEST_DOCUMENT = 4096
# The fastest settings of hf.py we found for a shape and a number of tokens; else PEER_DEFAULT.
PEER_DEFAULT = ("--compile", "layers")
PEER_OPTIONS = {
    ("1b", 32768): ("--compile", "layers", "--liger", "loss"),
}


@dataclasses.dataclass(frozen=True)
class Case:
    size: str
    tokens: int
    completions: bool = False  # the second half of each document is supervised, else all of it

    @property
    def name(self):
        return f"{self.size}-{self.tokens}" + ("-completions" if self.completions else "")

    @property
    def config(self):
        return SHAPES[self.size][2]

    @property
    def vocab_size(self):
        return VOCAB_SIZES[self.size]

    def shape_arguments(self):
        shape, layers, _ = SHAPES[self.size]
        chosen = ["--shape", shape, "--tokens", str(self.tokens)]
        return chosen + (["--layers", str(layers)] if layers else [])

    def peer_arguments(self):
        options = list(PEER_OPTIONS.get((self.size, self.tokens), PEER_DEFAULT))
        return options + (["--completion-only"] if self.completions else [])

    def overrides(self):
        """Settings of packtrain: one full pack of `tokens` a step."""
        return [
            f"data.max_length={min(LONGEST_DOCUMENT, self.tokens)}", "data.too_long=truncate",
            "batch.strategy=multipack", "batch.global_batch_size=null",
            f"batch.global_batch_tokens={self.tokens}",
            f"batch.max_tokens_per_micro_batch={self.tokens}",
        ]


CASES = {case.name: case for case in [
    *(Case(size, tokens) for size, steps in TOKENS.items() for tokens in steps),
    Case("1b", 16384, completions=True),
]}
