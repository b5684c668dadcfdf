"""Groups of a store as text: the prompt that their examples share once, then the answer of each."""

from collections.abc import Callable

import numpy as np

from packtrain_tools.showing import show_tokens
from packtrain_tools.sources.documents import Role
from packtrain_tools.store_reader import StoreReader

Decode = Callable[[list[int]], str]


def num_shared_tokens(examples: list[tuple[np.ndarray, np.ndarray]]) -> int:
    """Number of leading tokens that are the same in all examples, given as ids and mask, before the first that
    one of them learns. At least one token of each remains; 0 for one example (framework/data/store_groups.h)."""
    if len(examples) < 2:
        return 0
    shared = min(len(ids) for ids, _ in examples) - 1
    first = examples[0][0][:shared]
    for ids, mask in examples:
        learned = mask[:shared] != 0
        learned[:1] = False  # the first token has no predecessor
        ends = np.flatnonzero((ids[:shared] != first) | learned)
        shared = min(shared, int(ends[0])) if len(ends) else shared
        first = first[:shared]
    return shared


def _listed(numbers: list[int]) -> str:
    said = [f"{number:,}" for number in numbers]
    return " and ".join(said) if len(said) <= 2 else f"{', '.join(said[:-1])} and {said[-1]}"


def _numbers(store: StoreReader, number: int, mask: np.ndarray) -> str:
    """The columns of tokens of an answer: one value where all learned tokens have it, else the range."""
    said = []
    learned = np.flatnonzero(mask[1:]) + 1
    for name, column in store.token_columns(number).items():
        values = column[learned]
        low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 0.0)
        said.append(f"{name} {low:.4g}" + (f" to {high:.4g}" if high > low else ""))
    return f" ({', '.join(said)})" if said else ""


def title_of_group(store: StoreReader, number: int) -> tuple[str, list[int]]:
    """A title for the group that has an example, and its examples."""
    begin, roles, margin = store.group(number)
    members = list(range(begin, begin + len(roles)))
    examples = [store.example(member) for member in members]
    shared = num_shared_tokens([(ids, mask) for ids, mask, _ in examples])
    numbers = _listed(members) if len(members) <= 2 else f"{members[0]:,} to {members[-1]:,}"
    said = [f"{numbers} of {store.info['sources'][examples[0][2]]}",
            f"{_listed([len(ids) for ids, *_ in examples])} tokens"]
    said += [f"{shared:,} shared"] if len(members) > 1 else []
    said += [f"margin {margin:g}"] if margin is not None else []
    return f"example{'s' if len(members) > 1 else ''} {', '.join(said)}", members


def show_group(store: StoreReader, members: list[int], decode: Decode, color: bool,
               max_chars: int | None) -> str:
    """The shared prompt, then each answer under its role."""
    _, roles, _ = store.group(members[0])
    examples = [store.example(member)[:2] for member in members]
    shared = num_shared_tokens(examples)
    ids, mask = examples[0]
    parts = [f"prompt: {show_tokens(ids[:shared], mask[:shared], decode, color, max_chars)}"] if shared else []
    for role, number, (ids, mask) in zip(roles, members, examples):
        text = show_tokens(ids[shared:], mask[shared:], decode, color, max_chars, begins=shared == 0)
        parts.append(f"{Role(role).name.lower()}{_numbers(store, number, mask)}: {text}")
    return "\n".join(parts)


def show_sample(store: StoreReader, number: int, decode: Decode, color: bool, max_chars: int) -> str:
    """An example under its number, or the group that has it."""
    if store.has_groups:
        title, members = title_of_group(store, number)
        return f"--- {title}\n{show_group(store, members, decode, color, max_chars)}"
    ids, mask, _ = store.example(number)
    return f"--- example {number:,}, {len(ids):,} tokens\n{show_tokens(ids, mask, decode, color, max_chars)}"
