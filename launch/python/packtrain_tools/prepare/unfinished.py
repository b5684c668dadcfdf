"""The progress of a preparation, in `unfinished.json` of the training store."""

import datetime
import hashlib
import json
import os

from packtrain_tools.errors import ToolError
from packtrain_tools.prepare.store import MANIFEST, TOKENIZER_FILES, UNFINISHED
from packtrain_tools.sources.source_file import SourceFile

# Version of the rules that assign examples to stores. Version 1 had no number and took each example by
# itself. Version 2 treated numbers of --group-by's column in CSV and JSON as different.
RULES_VERSION = 3
TODAY = "today"
# Arguments that may differ from the continued command. `date` follows from `asked_date`.
FREE_ARGUMENTS = ("processes", "json", "samples", "overwrite", "date")


def request_of(arguments, files: list[SourceFile]) -> str:
    """A hash of everything that the stores depend on."""
    asked = {name: value for name, value in vars(arguments).items() if name not in FREE_ARGUMENTS}
    stamps = [(file.path, file.num_bytes,
               os.stat(file.path).st_mtime_ns if os.path.exists(file.path) else 0)
              for file in files]
    text = json.dumps([asked, stamps, [_digest(os.path.join(arguments.tokenizer, name))
                                       for name in TOKENIZER_FILES],
                       _digest(arguments.chat_template or "")], default=str)
    return hashlib.sha256(text.encode(errors="surrogateescape")).hexdigest()


def _digest(path: str) -> str:
    if not os.path.isfile(path):
        return ""
    with open(path, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def state_to_go_on_with(arguments, files: list[SourceFile]) -> dict | None:
    """The saved state, or None to start again: nothing was saved, or all is done, or --overwrite was
    given."""
    folder = arguments.out
    state = _read(folder)
    if state is None:
        return None
    rules = state.get("rules", 1)
    is_same = rules == RULES_VERSION and state["request"] == request_of(arguments, files)
    if is_same or arguments.overwrite:
        return state if is_same else None
    if rules != RULES_VERSION:
        raise ToolError(f"{folder}: holds what another version of packtrain prepare has not finished: "
                        f"it has version {rules} of the rules that divide examples between stores, "
                        f"wanted {RULES_VERSION}; going on would move examples",
                        "Finish it with the version that began it, or start anew with --overwrite.")
    raise ToolError(f"{folder}: holds what another command, or one with other sources, has not "
                    "finished", "The same command continues with it; --overwrite replaces it.")


def _read(folder: str) -> dict | None:
    path = os.path.join(folder, UNFINISHED)
    if not os.path.isfile(path) or os.path.isfile(os.path.join(folder, MANIFEST)):
        return None
    with open(path, encoding="utf-8") as stream:
        try:
            return json.load(stream)
        except ValueError as error:
            raise ToolError(f"{path}: is no valid JSON: {error}",
                            "Remove the folder, and start anew.") from None


def resolve_date(arguments, files: list[SourceFile]) -> str:
    """The date of --date as YYYY-MM-DD; `today` is the day when the preparation began."""
    if arguments.asked_date != TODAY:
        return arguments.asked_date
    state = state_to_go_on_with(arguments, files)
    return state["date"] if state else datetime.date.today().isoformat()
