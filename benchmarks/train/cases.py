"""The cases of benchmarks/train/run, the settings of ours, and the strongest peers."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Size:
    shape: str  # in benchmarks/peers/shapes.py
    layers: int | None  # None: all
    config: str
    vocab_size: int


SIZES = {
    "8b": Size("llama-3-8b", None, "llama-3-8b-short.yaml", 128256),
    "8b-8-layers": Size("llama-3-8b", 8, "llama-3-8b-8-layers-short.yaml", 128256),
    "1b": Size("llama-3.2-1b", None, "llama-3.2-1b-short.yaml", 128256),
    "qwen-0.5b": Size("qwen2.5-0.5b", None, "qwen2.5-0.5b-short.yaml", 151936),
}
LENGTHS = {  # distribution as for `packtrain prepare --synthetic`; number of documents; the longest
    "short": ("lognormal:5.3,0.9,8,4096", 12000, 4096),
    "full": ("constant:8192", 400, 8192),
}
# Settings of packtrain. One GPU has one; with several GPUs the first of a case is measured before its others.
# A variant without a path in its name takes the paths that packtrain chooses.
ZERO3 = ("parallel.zero_stage=3", "precision.reduce=bf16")
ZERO2 = ("parallel.zero_stage=2", "precision.reduce=bf16")
VARIANTS = {
    "default": (),
    "zero3": ZERO3,
    "zero2": ZERO2,
    "zero3-fp32": ("parallel.zero_stage=3", "precision.reduce=fp32"),
    "zero3-ring": (*ZERO3, "parallel.gather_path=ring", "parallel.reduce_path=ring"),
    "zero3-copy-engine": (*ZERO3, "parallel.gather_path=copy_engine", "parallel.reduce_path=ring"),
    "zero3-symmetric": (*ZERO3, "parallel.gather_path=copy_engine",
                        "parallel.reduce_path=symmetric"),
    "zero3-copied-sums": (*ZERO3, "parallel.gather_path=copy_engine",
                          "parallel.reduce_path=copy_engine"),
    "zero2-copy-engine": (*ZERO2, "parallel.gather_path=copy_engine", "parallel.reduce_path=ring"),
    "zero2-copied-sums": (*ZERO2, "parallel.gather_path=copy_engine",
                          "parallel.reduce_path=copy_engine"),
    "zero3-pairs": (*ZERO3, "parallel.shard_size=2"),
}
CHAIN_REFERENCE = 16384  # tokens of the GEMM chain with which every row is compared


@dataclasses.dataclass(frozen=True)
class Peer:
    program: str  # in benchmarks/peers
    options: tuple[str, ...]
    groups: bool = True  # one process measures several numbers of tokens


PEERS = {
    "hf-compile": Peer("hf.py", ("--compile", "layers")),
    "hf-compile-liger-loss": Peer("hf.py", ("--compile", "layers", "--liger", "loss")),
    "hf-compile-liger": Peer("hf.py", ("--compile", "layers", "--liger", "all")),
    "hf-liger": Peer("hf.py", ("--liger", "all")),
    "hf-compile-cudnn": Peer("hf.py", ("--compile", "layers", "--attention", "cudnn")),
    "torchtitan": Peer("titan.py", (), groups=False),
}
# The fastest that we found, on one GPU and on several, and those to try if it fails. On 4 x H200 torchtitan
# and transformers with Liger's kernels are within 3 % of the ones here where not named.
FASTEST_ON_ONE = {"1b-32768": ("hf-compile-liger-loss",)}
FASTEST_ON_SEVERAL = {
    "8b-4096": ("hf-liger",),
    "8b-8192-full": ("torchtitan", "hf-compile-cudnn"),
    "8b-16384-full": ("torchtitan", "hf-compile-cudnn"),
    "1b-32768": ("hf-compile-liger",),
    "1b-8192": ("hf-compile-liger",),
    "1b-4096": ("hf-compile-liger",),
}


@dataclasses.dataclass(frozen=True)
class Case:
    size: str
    tokens: int  # of a GPU and step
    documents: str = "short"
    completions: bool = False  # the second half of each document is supervised, else all of it
    variants: tuple[str, ...] = ("zero3", "zero2")

    @property
    def name(self):
        return (f"{self.size}-{self.tokens}" + ("-full" if self.documents == "full" else "")
                + ("-completions" if self.completions else ""))

    @property
    def config(self):
        return SIZES[self.size].config

    @property
    def vocab_size(self):
        return SIZES[self.size].vocab_size

    def shape_arguments(self):
        """Arguments of the peers' programs and of the chain's."""
        size = SIZES[self.size]
        return ["--shape", size.shape] + (["--layers", str(size.layers)] if size.layers else [])

    def document_arguments(self):
        """Arguments of the peers' programs."""
        return (["--documents", self.documents]
                + (["--completion-only"] if self.completions else []))

    def variants_on(self, num_gpus):
        return self.variants if num_gpus > 1 else ("default",)

    def peers_on(self, num_gpus):
        fastest = FASTEST_ON_SEVERAL if num_gpus > 1 else FASTEST_ON_ONE
        return fastest.get(self.name, ("hf-compile",))

    def overrides(self, num_gpus):
        """Settings of packtrain: one full pack of `tokens` a GPU and step."""
        return [
            f"data.max_length={min(LENGTHS[self.documents][2], self.tokens)}",
            "data.too_long=truncate",
            "batch.strategy=multipack", "batch.global_batch_size=null",
            f"batch.global_batch_tokens={self.tokens * num_gpus}",
            f"batch.max_tokens_per_micro_batch={self.tokens}",
        ]


WITH_FP32 = ("zero3", "zero2", "zero3-fp32")
ON_SEVERAL = [  # most important first
    Case("8b", 16384, variants=WITH_FP32),
    Case("8b", 8192, variants=WITH_FP32),
    Case("8b", 4096, variants=WITH_FP32),
    Case("8b", 2048, variants=WITH_FP32),
    Case("8b", 8192, "full"),
    Case("8b", 16384, "full"),
    Case("1b", 32768),
    Case("1b", 4096),
    Case("1b", 8192),
]
ON_ONE = [
    *(Case("1b", tokens) for tokens in (32768, 16384, 8192, 4096, 2048)),
    *(Case("8b-8-layers", tokens) for tokens in (16384, 8192, 4096)),
    *(Case("qwen-0.5b", tokens) for tokens in (16384, 4096, 2048, 1024)),
    Case("1b", 16384, completions=True),
]
CASES = {case.name: case for case in [*ON_SEVERAL, *ON_ONE]}


def default_cases(num_gpus):
    return [case.name for case in (ON_SEVERAL if num_gpus > 1 else ON_ONE)]
