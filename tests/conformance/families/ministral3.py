from sizes import LINEAR, NO_PAD, SMALL, YARN
from transformers import Ministral3Config as Config  # noqa: F401

# Queries from position 32 on are scaled.
TEMPERED = dict(YARN, llama_4_scaling_beta=0.3)

BASE = dict(SMALL, **NO_PAD, head_dim=10, rope_parameters=TEMPERED)
CASES = {
    "window": dict(sliding_window=9),
    "wide_heads": dict(head_dim=80, num_attention_heads=3, num_key_value_heads=1),
    "other_rotary": dict(rope_parameters=dict(LINEAR, llama_4_scaling_beta=1.5,
                                              original_max_position_embeddings=7)),
    "no_temperature": dict(rope_parameters=dict(YARN, llama_4_scaling_beta=0.0)),
}
PRIVATE = dict(sliding_window=50, tie_word_embeddings=True,
               rope_parameters=dict(YARN, llama_4_scaling_beta=0.5, original_max_position_embeddings=9))
GPU = {"head_dim_128": dict(head_dim=128, sliding_window=400, tie_word_embeddings=True)}
REFUSED = {
    "hidden_act": dict(hidden_act="relu2"),
    "rope_parameters.llama_4_scaling_beta": dict(rope_parameters=dict(TEMPERED, llama_4_scaling_beta=-1.0)),
}


def vary(generator, changes):
    rope = changes.get("rope_parameters")
    if rope:
        rope["llama_4_scaling_beta"] = generator.choice([0.0, 0.1, 0.7])
        rope.setdefault("original_max_position_embeddings",
                        changes["max_position_embeddings"] if rope["rope_type"] == "dynamic" else 40)
