"""Finds folders whose files belong to several splits, which would mix held-out data into training data."""

import os
import re

from packtrain_tools.errors import ToolError

_SPLIT_NAMES = {"train": "train", "training": "train", "test": "test", "testing": "test",
                **dict.fromkeys(("validation", "valid", "val", "dev", "eval", "evaluation", "heldout",
                                 "holdout"), "validation")}
_ANY_SPLIT = "|".join(_SPLIT_NAMES)
_SPLIT = re.compile(rf"(?:^|[/_.=-])({_ANY_SPLIT})(?=\d*[/_.-])", re.I)
_SPLIT_TEXT = re.compile(rf"(?:.*[/_.=-])?({_ANY_SPLIT})\d*\.te?xt(\.\w+)?", re.I)  # train.txt, no test.md
_SPLIT_FOLDER = re.compile(rf"((?:.*[_.=-])?)({_ANY_SPLIT})\d*", re.I)


def check_splits(folder: str, files: list[tuple[str, bool]]):
    """`files`: the path of each below the folder, and whether it is plain text. Raises ToolError."""
    splits = {_SPLIT_NAMES[name.lower()] for path, is_text in files for name in _names_in(path, is_text)}
    if len(splits) < 2:
        splits = _splits_of_texts([path for path, is_text in files if is_text])
    if len(splits) > 1:
        raise ToolError(f"{folder}: holds files of the splits {', '.join(sorted(splits))}",
                        "Name the files (or the folder) of one of them.")


def _names_in(path: str, is_text: bool) -> list[str]:
    if not is_text:
        return _SPLIT.findall(path)
    found = _SPLIT_TEXT.fullmatch(path)
    return [found[1]] if found else []


def _splits_of_texts(paths: list[str]) -> set[str]:
    """The splits of folders next to each other, one of which is for training. Documentation has single folders
    with such names."""
    siblings: dict[tuple[str, str], set[str]] = {}
    for folder in {os.path.dirname(path) for path in paths}:
        while folder:
            folder, name = os.path.split(folder)
            found = _SPLIT_FOLDER.fullmatch(name)
            if found:
                siblings.setdefault((folder, found[1].lower()), set()).add(_SPLIT_NAMES[found[2].lower()])
    return next((splits for splits in siblings.values() if len(splits) > 1 and "train" in splits), set())
