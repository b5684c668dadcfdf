"""The groups of a store: what the formats of the sources say of them, before anything is read."""

import sys

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.prepare.lengths import TURNS
from packtrain_tools.prepare.rollout_groups import MEANINGS, STANDARDIZED
from packtrain_tools.sources.columns import PREFERENCES, FileFormat, has_margins
from packtrain_tools.sources.rollout_columns import ADVANTAGE, OLD_LOG_PROB, STORED, TOKEN_WEIGHT


def find_groups(arguments, formats: list[FileFormat]) -> dict | None:
    """`kind`, `has_margins` and `token_columns` of the store, None for a plain one. Conversations are groups of
    turns on request alone. Rollouts have `from_rewards` too: how advantages are computed, "" where they are
    given. Raises ToolError for sources that no one store can hold, and for options that do not fit
    preferences."""
    kinds = {form.name if form.name in PREFERENCES else "plain" for form in formats}
    if arguments.only_chosen and "rollouts" in kinds:
        raise ToolError("--only-chosen does not fit rollouts: none of them was chosen",
                        "--format prompt-completion learns all of them.", CONFIG)
    if arguments.only_chosen or kinds == {"plain"}:
        return {"kind": "turns", "has_margins": False, "token_columns": []} if arguments.group_turns else None
    if len(kinds) > 1:
        found = " and ".join(f"'{kind}'" for kind in sorted(kinds))
        raise ToolError(f"the sources have examples of the kinds {found}, and a store has one kind",
                        "Prepare a store of each kind, or take the chosen answers with --only-chosen.", CONFIG)
    _check_options(arguments)
    [kind] = kinds
    if kind == "rollouts":
        return _rollouts(arguments, formats)
    with_margin = {has_margins(form) for form in formats}
    if len(with_margin) > 1:
        raise ToolError("some sources have margins ('margin', or 'score_chosen' and 'score_rejected'), and "
                        "others have none", "--column margin= --column score_chosen= leaves them out.", CONFIG)
    if any("score_chosen" in form.columns for form in formats):
        print("packtrain prepare: the margin of a pair is score_chosen - score_rejected", file=sys.stderr)
    return {"kind": kind, "has_margins": with_margin == {True}, "token_columns": []}


def _rollouts(arguments, formats: list[FileFormat]) -> dict:
    columns = {frozenset(_numbers(form)) for form in formats}
    if len(columns) > 1:
        found = " and ".join(sorted(" with ".join(sorted(names)) for names in columns))
        raise ToolError(f"the sources have rollouts {found}", "Prepare a store of each, or leave columns out, as "
                        "with --column old_log_prob=.", CONFIG)
    [names] = columns
    from_rewards = ""
    if "reward" in names:
        from_rewards = arguments.advantage_from or STANDARDIZED
        print(f"packtrain prepare: {MEANINGS[from_rewards]}, of each prompt's rollouts", file=sys.stderr)
    others = [STORED.get(name, name) for name in (OLD_LOG_PROB, TOKEN_WEIGHT) if name in names]
    return {"kind": "rollouts", "has_margins": False, "token_columns": [ADVANTAGE, *others],
            "from_rewards": from_rewards}


def _numbers(form: FileFormat) -> set[str]:
    return {"reward", ADVANTAGE, OLD_LOG_PROB, TOKEN_WEIGHT} & set(form.columns)


def _check_options(arguments):
    asked = {f"--train-on {arguments.train_on}": arguments.train_on != "assistant",
             "--also-train-on": bool(arguments.also_train_on)}
    for name, given in asked.items():
        if given:
            raise ToolError(f"{name} does not fit preferences: of each only the answer is learned",
                            "Leave it out, or make a plain store with --only-chosen.", CONFIG)
    if arguments.too_long in TURNS:
        raise ToolError(f"--too-long {arguments.too_long} does not fit preferences: their answers would follow "
                        "different prompts", "Give refuse, drop or truncate.", CONFIG)


def groups_text(store: dict) -> str:
    """The number of groups, for a summary; empty for a plain store."""
    groups = store.get("groups")
    if groups is None:
        return ""
    margins = ", with margins" if groups["has_margins"] else ""
    names = {"pairs": "pairs", "judged": "judged answers", "rollouts": "prompts with their rollouts",
             "turns": "conversations"}
    return f", {groups['num_groups']:,} {names[groups['kind']]}{margins}"
