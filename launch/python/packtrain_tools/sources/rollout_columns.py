"""The columns of rollouts, and what trainers call them."""

# Our name: names of the same thing in files of trainers, such as TRL's completions and verl's rollouts.
_CALLED = {
    "prompt": ("input", "query"),
    "prompt_ids": ("prompt_token_ids",),
    "completion": ("completions", "response", "responses", "output"),
    "completion_ids": ("completion_token_ids", "response_ids"),
    "completion_mask": ("response_mask",),
    "advantage": ("advantages",),
    "reward": ("rewards", "score", "scores"),
    "old_log_prob": ("old_log_probs", "logprobs", "old_logprobs", "rollout_log_probs"),
    "token_weight": ("token_weights", "rollout_is_weights"),
    "group": ("prompt_id", "group_id", "uid"),
}
ROLLOUTS = tuple(_CALLED)
OLD_LOG_PROB, ADVANTAGE = "old_log_prob", "advantage"  # also names of columns of tokens
TOKEN_WEIGHT = "token_weight"  # the column `weight` of a record is of the whole example
STORED = {TOKEN_WEIGHT: "weight"}  # columns of tokens that have another name in stores
# Nothing else has these. Rewards alone do not decide: data for supervised training have them too.
_SIGNS = {ADVANTAGE, *_CALLED[ADVANTAGE], OLD_LOG_PROB, *_CALLED[OLD_LOG_PROB]}


def completed(names: list[str], wanted: str | None,
              renamed: list[tuple[str, str]]) -> tuple[str | None, list[tuple[str, str]]]:
    """Completes the format and the columns of rollouts; (ours, theirs) as --column gives them."""
    signs = {ours for ours, theirs in renamed if theirs} | set(names)
    is_other = {"chosen", "rejected"} <= set(names) or "label" in names
    if wanted is None and signs & _SIGNS and not is_other and signs & _answers():
        wanted = "rollouts"
    if wanted != "rollouts":
        return wanted, renamed
    given = {ours for ours, _ in renamed}
    for ours, others in _CALLED.items():
        theirs = next((name for name in others if name in names), None)
        if ours not in names and ours not in given and theirs is not None:
            renamed = [*renamed, (ours, theirs)]
    return wanted, renamed


def _answers() -> set[str]:
    return {name for ours in ("completion", "completion_ids") for name in (ours, *_CALLED[ours])}


def needed(used: tuple[str, ...], advantage_from: str) -> tuple[str, ...]:
    """The columns that are read of those that the file has. Token ids take precedence over texts. Raises
    ValueError."""
    has_ids = {"prompt_ids", "completion_ids"} <= set(used)
    if not has_ids and "completion_ids" in used and "completion" not in used:
        raise ValueError("has 'completion_ids' without 'prompt_ids': wanted token ids of both, or texts of both")
    for names in (("prompt_ids",) if has_ids else ("prompt",), ("completion_ids",) if has_ids else ("completion",),
                  ("reward",) if advantage_from else (ADVANTAGE, "reward")):
        if not set(names) & set(used):
            raise ValueError(f"has no {' or '.join(repr(name) for name in names)}, which rollouts need")
    superseded = {"prompt", "completion", "system", "tools", "functions"} if has_ids else \
        {"prompt_ids", "completion_ids", "completion_mask"}
    superseded.add("reward" if ADVANTAGE in used and not advantage_from else ADVANTAGE)
    return tuple(name for name in used if name not in superseded)
