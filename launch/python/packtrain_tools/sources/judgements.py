"""Labels of answers as good or bad: `label` of TRL, `kto_tag` of LLaMA-Factory."""

from packtrain_tools.sources.columns import JUDGEMENTS
from packtrain_tools.sources.preferences import TRUTHS


def judgement(value: dict) -> str | None:
    """The column that labels the answer as good or bad, if there is one."""
    is_tag = str(value.get("kto_tag")).strip().lower() in TRUTHS
    return next((name for name in JUDGEMENTS if isinstance(value.get(name), bool)), "kto_tag" if is_tag else None)


def is_judged(value: dict | None) -> bool:
    return judgement(value or {}) is not None


def check_judged(value: dict):
    """Raises ValueError for data that label answers as good or bad."""
    name = judgement(value)
    if name is not None:
        raise ValueError(f"holds a preference ('{name}' is true or false next to an answer), which --format "
                         "judged reads (rename the column if it means something else)")
