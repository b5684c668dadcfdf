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


def title_of_group(store: StoreReader, number: int) -> tuple[str, list[int]]:
    """A title for the group that has an example, and its examples."""
    begin, roles, margin = store.group(number)
    members = list(range(begin, begin + len(roles)))
    examples = [store.example(member) for member in members]
    lengths = " and ".join(f"{len(ids):,}" for ids, *_ in examples)
    shared = num_shared_tokens([(ids, mask) for ids, mask, _ in examples])
    said = [f"{' and '.join(f'{member:,}' for member in members)} of {store.info['sources'][examples[0][2]]}",
            f"{lengths} tokens"]
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
    for role, (ids, mask) in zip(roles, examples):
        text = show_tokens(ids[shared:], mask[shared:], decode, color, max_chars, begins=shared == 0)
        parts.append(f"{Role(role).name.lower()}: {text}")
    return "\n".join(parts)


def show_sample(store: StoreReader, number: int, decode: Decode, color: bool, max_chars: int) -> str:
    """An example under its number, or the group that has it."""
    if store.has_groups:
        title, members = title_of_group(store, number)
        return f"--- {title}\n{show_group(store, members, decode, color, max_chars)}"
    ids, mask, _ = store.example(number)
    return f"--- example {number:,}, {len(ids):,} tokens\n{show_tokens(ids, mask, decode, color, max_chars)}"
