"""The paper's setting: models, lengths of examples and strategies of benchmarks/train/paper."""

import dataclasses
import os

from programs import ROOT

NUM_EXAMPLES = 64  # of an optimizer step of examples
PACK_TOKENS = 16384  # of a GPU and step, for steps of packs
LONGEST = 4096
SAME_BATCHES = ("padding", "padding_free", "balanced")  # strategies with the same examples in each step
PACKS = ("fixed_length", "multipack")  # strategies with other steps
STRATEGIES = SAME_BATCHES + PACKS
OF_PEERS = ("batch_rebalance",)  # strategies that only the peer has, with the examples of SAME_BATCHES
LENGTHS = {  # lognormal parameters, clipped to 8..LONGEST
    "flan": "5.663,1.0",
    "orcamath": "5.545,0.5",
}
MODELS = {  # shape of the peer and its vocabulary; the config, by lengths
    "mistral-7b": ("mistral-7b", 32000, "paper/mistral-7b-{}.yaml"),
    "llama-3.2-1b": ("llama-3.2-1b", 128256, "llama-3.2-1b-short.yaml"),
}


@dataclasses.dataclass(frozen=True)
class Setting:
    model: str
    lengths: str
    num_gpus: int

    @property
    def name(self):
        return f"{self.model}-{self.lengths}-x{self.num_gpus}"

    @property
    def peer_options(self):
        return ["--shape", MODELS[self.model][0], "--liger", "all"]

    @property
    def store_vocab_size(self):
        return MODELS[self.model][1]

    @property
    def config(self):
        return os.path.join(ROOT, "configs", MODELS[self.model][2].format(self.lengths))

    def store_arguments(self):
        return f"lognormal:{LENGTHS[self.lengths]},8,{LONGEST}", 12000, self.store_vocab_size

    def overrides(self, strategies):
        """Settings of packtrain for SAME_BATCHES or PACKS."""
        common = [f"data.max_length={LONGEST}", "batch.micro_batch_size=4",
                  f"batch.max_tokens_per_micro_batch={PACK_TOKENS}"]
        if strategies == PACKS:
            return common + ["batch.global_batch_size=null",
                             f"batch.global_batch_tokens={PACK_TOKENS * self.num_gpus}"]
        return common + [f"batch.global_batch_size={NUM_EXAMPLES}"]
