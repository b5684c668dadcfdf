"""Names options for columns that were not read, and whose names say that they belong to the prompt or the answer."""

from packtrain_tools.sources.columns import FORMATS, JUDGEMENTS, FileFormat
from packtrain_tools.sources.documents import printable

# By our name: names that data sets give the column.
_OPTIONAL = {"system": ("system_prompt", "system_message", "sys_prompt", "system_instruction", "developer_prompt"),
             "tools": ("available_tools", "tool_list", "tools_json", "tool_definitions"),
             "history": ("chat_history", "conversation_history", "dialogue_history"),
             "input": ("context", "inputs", "passage", "document"),
             "score_chosen": ("chosen_score", "chosen_rating", "chosen-rating", "chosen_reward"),
             "score_rejected": ("rejected_score", "rejected_rating", "rejected-rating", "rejected_reward")}
_INPUT = ("input", *_OPTIONAL["input"])
_THOUGHTS = ("reasoning", "reasoning_content", "thinking", "thought", "thoughts", "cot", "rationale")
_ANSWERED = ("prompt-completion", "instruction", "messages", "sharegpt")


def hints_for(form: FileFormat) -> list[str]:
    """A sentence for each such column."""
    found = []
    for ours in FORMATS[form.name].optional if form.name in FORMATS else ():
        theirs = next((name for name in form.ignored if name.lower() in _OPTIONAL.get(ours, ())), None)
        if theirs is not None and ours not in form.columns:
            found.append(f"'{theirs}' is not read: --column {ours}={theirs} reads it")
    for name in form.ignored if form.name in _ANSWERED else ():
        found += _hint_of(name, form)
    return [printable(text) for text in found]


def _hint_of(name: str, form: FileFormat) -> list[str]:
    if name in JUDGEMENTS:
        return [f"'{name}' is not read: if it says whether an answer is good, --format judged reads it"]
    if name.lower() in _THOUGHTS:
        return [f"'{name}' is not read: if it is the thought before an answer, put it into the answer in the tags of "
                "the model, or into 'reasoning_content' of the message"]
    if form.name == "prompt-completion" and name.lower() in _INPUT:
        names = [f"--column {ours}={form.theirs.get(of, of)}"
                 for ours, of in (("instruction", "prompt"), ("output", "completion"))]
        names += [] if name == "input" else [f"--column input={name}"]
        return [f"'{name}' is not read: --format instruction {' '.join(names)} puts it after the prompt"]
    return []
