"""Reports options that change nothing for the given sources, because the user probably expects an effect."""

from packtrain_tools.errors import CONFIG, ToolError
from packtrain_tools.sources.columns import PREFERENCES
from packtrain_tools.sources.formats import DOCUMENT, FileFormat
from packtrain_tools.sources.source_file import SourceFile

_CHATS = {"messages", "sharegpt", "prompt-completion", "instruction", *PREFERENCES}


def check_columns(columns: list[tuple[str, str]], files: list[SourceFile],
                  formats: dict[str, FileFormat]):
    """Checks that --column names columns of some source. Raises ToolError."""
    for ours, theirs in columns:
        asked = [(file, formats[file.path]) for file in files if formats[file.path].name != DOCUMENT]
        if not theirs or any(theirs in (*form.theirs.values(), *form.columns, *form.ignored)
                             for _, form in asked):
            continue
        if asked and all(ours in form.later and not file.has_schema for file, form in asked):
            continue  # later records may have it
        raise ToolError(f"--column {ours}={theirs}: no source has a column '{theirs}'",
                        "Their columns are listed above.", CONFIG)


def options_without_effect(arguments, formats: set[str]) -> list[str]:
    """The options without effect, each with its purpose, for messages."""
    has_chats, has_documents = bool(formats & _CHATS), DOCUMENT in formats
    found = []
    if not has_chats:
        asked = {"--train-on": arguments.train_on != "assistant",
                 "--also-train-on": arguments.also_train_on, "--system": arguments.system,
                 "--merge-system": arguments.merge_system, "--role": arguments.role,
                 "--message-key": arguments.message_key}
        found += [f"{name} (no source has conversations)" for name, given in asked.items() if given]
    if arguments.only_chosen and not formats & set(PREFERENCES):
        found.append("--only-chosen (no source has preferences)")
    if arguments.advantage_from and "rollouts" not in formats:
        found.append("--advantage-from (no source has rollouts)")
    if arguments.instructions_as and not formats & {"instruction", "pairs", "judged"}:
        found.append("--instructions-as (no source has instructions)")
    if arguments.separator is not None and not has_documents:
        found.append("--separator (no source is a text file)")
    return found
