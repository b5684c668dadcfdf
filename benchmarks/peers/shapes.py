"""Model shapes and documents that the benchmarks share, and the counts of their work."""

import dataclasses
import math
import random

import yaml


@dataclasses.dataclass(frozen=True)
class Shape:
    """A decoder with grouped queries and a gated MLP, as in Llama and Qwen2."""

    family: str  # model_type in transformers
    hidden: int
    inner: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    tied: bool
    rope_theta: float

    def layer_matrices(self):
        """(outputs, inputs) of a layer's matrices, merged as an efficient trainer merges them."""
        query = self.heads * self.head_dim
        return [
            (query + 2 * self.kv_heads * self.head_dim, self.hidden),
            (self.hidden, query),
            (2 * self.inner, self.hidden),
            (self.hidden, self.inner),
        ]

    def matmul_parameters(self):
        """The parameters that multiply each token: layers and head."""
        layer = sum(outputs * inputs for outputs, inputs in self.layer_matrices())
        return self.layers * layer + self.vocab * self.hidden

    def training_flops(self, tokens, squared_lengths):
        """FLOPs of forward and backward; causal attention counts half of each L x L square."""
        attention = 6 * self.layers * self.heads * self.head_dim * squared_lengths
        return 6 * self.matmul_parameters() * tokens + attention


@dataclasses.dataclass(frozen=True)
class ConfiguredShape:
    """A model of any family, by its config.json keys. Its FLOPs are not counted here."""

    config: dict

    @property
    def vocab(self):
        return self.config["vocab_size"]

    def training_flops(self, tokens, squared_lengths):
        return math.nan


def configured_shape(path):
    """The shape of a packtrain configuration with model.config."""
    with open(path, encoding="utf-8") as file:
        return ConfiguredShape(yaml.safe_load(file)["model"]["config"])


SHAPES = {
    "llama-3.2-1b": Shape("llama", 2048, 8192, 16, 32, 8, 64, 128256, True, 5e5),
    "llama-3-8b": Shape("llama", 4096, 14336, 32, 32, 8, 128, 128256, False, 5e5),
    # as transformers' Llama, which computes the same
    "mistral-7b": Shape("llama", 4096, 14336, 32, 32, 8, 128, 32000, False, 1e4),
    "qwen2.5-0.5b": Shape("qwen2", 896, 4864, 24, 14, 2, 64, 151936, True, 1e6),
    "tiny": Shape("llama", 64, 96, 2, 4, 2, 16, 512, True, 1e4),
}
LONGEST_SHORT = 4096
FULL_LENGTH = 8192


def add_shape_arguments(parser):
    parser.add_argument("--shape", choices=SHAPES, default="llama-3.2-1b")
    parser.add_argument("--layers", type=int, help="instead of the shape's own number")
    parser.add_argument(
        "--tokens", type=lambda text: [int(number) for number in text.split(",")], default=[16384],
        help="of a step and GPU; several, comma-separated, are measured one after the other",
    )


def add_document_argument(parser):
    parser.add_argument(
        "--documents", choices=["short", "full"], default="short",
        help=f"short: lognormal(5.3, 0.9), clipped to 8..{LONGEST_SHORT}; full: {FULL_LENGTH} each")


def chosen_shape(arguments):
    shape = SHAPES[arguments.shape]
    return dataclasses.replace(shape, layers=arguments.layers) if arguments.layers else shape


def draw_lengths(generator: random.Random, tokens, documents="short"):
    """Lengths of documents that fill `tokens`; the last one is cut."""
    lengths = []
    while (left := tokens - sum(lengths)) > 0:
        drawn = FULL_LENGTH
        if documents == "short":
            drawn = round(math.exp(generator.normalvariate(5.3, 0.9)))
            drawn = max(8, min(LONGEST_SHORT, drawn))
        lengths.append(min(left, drawn))
    return lengths
