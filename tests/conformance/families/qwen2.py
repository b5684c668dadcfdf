from sizes import SMALL, WIDE_HEADS
from transformers import Qwen2Config as Config  # noqa: F401

BASE = SMALL
CASES = {
    "wide_heads": WIDE_HEADS,
    "rotary_base": dict(rope_parameters=dict(rope_type="default", rope_theta=1e6)),
}
REFUSED = {"use_mrope": dict(use_mrope=True)}
