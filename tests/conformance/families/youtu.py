from latent_heads import LATENT_CASES, LATENT_GPU, LATENT_REFUSED, SIZES, vary_heads
from sizes import YARN
from transformers import YoutuConfig

BASE = SIZES


def Config(**options):
    """As many heads of keys as of queries."""
    return YoutuConfig(**{"num_key_value_heads": options["num_attention_heads"], **options})


CASES = {
    **LATENT_CASES,
    "halves_turned": dict(rope_interleave=False),
    "widths_of_random_weights": dict(initializer_range=0.3, embedding_initializer_range=0.1),
}
PRIVATE = dict(attention_bias=True, q_lora_rank=None, rope_interleave=False, tie_word_embeddings=False,
               rope_parameters=dict(YARN, mscale=1.0, mscale_all_dim=1.0))
GPU = LATENT_GPU
REFUSED = {**LATENT_REFUSED, "n_routed_experts": dict(n_routed_experts=4)}


def vary(generator, changes):
    vary_heads(generator, changes)
    changes["rope_interleave"] = generator.choice([False, True])
