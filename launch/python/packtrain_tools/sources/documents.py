"""The decoded contents of a record: text, an instruction, or a conversation; or an error."""

import enum
import unicodedata
from dataclasses import dataclass

from packtrain_tools.chat.conversations import Conversation
from packtrain_tools.chat.reshape import Reshaping

MOST_CHARS = 2000  # of a fault


class BadRecord(Exception):
    """The fault of a record, and its line (or row)."""

    def __init__(self, fault: str, line: int):
        fault = printable(fault)
        super().__init__(fault, line)
        self.fault = fault
        self.line = line


def printable(text: str) -> str:
    """Makes any data fit on one line of every terminal and file."""
    if not text.isprintable():
        text = "".join(char if char.isprintable() or unicodedata.category(char) in ("Zs", "Co")
                       else char.encode("unicode_escape").decode() for char in text)
    return text if len(text) <= MOST_CHARS else f"{text[:MOST_CHARS - 3]}..."


class Role(enum.IntEnum):
    """The role of an example in its group. The values are those of the column group_role
    (framework/data/example_groups.h)."""

    CHOSEN = 0
    REJECTED = 1
    DESIRABLE = 2
    UNDESIRABLE = 3
    ROLLOUT = 4
    TURN = 5


@dataclass(frozen=True, slots=True)
class Text:
    """A decoded document: `prompt` is read but not learned; `None` where there is none."""

    prompt: str | None
    text: str
    group: str = ""  # the value of --group-by's column, as JSON
    weight: float = 1.0  # of the example, from 0 to 1
    earlier: tuple[tuple[str, str], ...] = ()  # prompts and answers before these, whose answers are learned too


@dataclass(frozen=True, slots=True)
class Instruction:
    system: str
    prompt: str
    input: str
    output: str
    group: str = ""
    weight: float = 1.0
    history: tuple[tuple[str, str], ...] = ()  # earlier turns: question, answer
    reshaping: Reshaping = Reshaping()
    tools: list[dict] | None = None  # of a conversation; text has no place for them

    def as_asked(self, as_chat: bool, learns_history: bool) -> Conversation | Text:
        """Raises ValueError."""
        if as_chat:
            return self.as_conversation()
        if self.tools:
            raise ValueError("has tools, and instructions become text (--instructions-as chat, or --column tools= "
                             "leaves the column out)")
        return self.as_text(learns_history)

    def as_text(self, learns_history: bool = False) -> Text:
        """Formats it under headings, as data for models without a chat template often is."""
        system = self.system or self.reshaping.system
        prompts = [f"### Instruction:\n{asked}" for asked, _ in self.history]
        prompts.append(f"### Instruction:\n{self.prompt}" + (f"\n\n### Input:\n{self.input}" if self.input else ""))
        prompts[0] = (f"{system}\n\n" if system else "") + prompts[0]
        prompts = [("\n\n" if number else "") + prompt + "\n\n### Response:\n"
                   for number, prompt in enumerate(prompts)]
        earlier = tuple((prompt, answered) for prompt, (_, answered) in zip(prompts, self.history))
        if learns_history:
            return Text(prompts[-1], self.output, self.group, self.weight, earlier)
        return Text("".join(map("".join, earlier)) + prompts[-1], self.output, self.group, self.weight)

    def as_conversation(self) -> Conversation:
        """Raises ValueError."""
        messages = [{"role": "system", "content": self.system}] if self.system else []
        asked = self.prompt + (f"\n\n{self.input}" if self.input else "")
        for question, answer in (*self.history, (asked, self.output)):
            messages += [{"role": "user", "content": question},
                         {"role": "assistant", "content": answer}]
        return self.reshaping.of(Conversation(messages, self.tools, [None] * len(messages), self.group,
                                              self.weight))


@dataclass(frozen=True, slots=True)
class Preference:
    """Answers that were compared or judged: a member for each role, chosen first. The members have the same
    prompt, of which nothing is learned."""

    members: tuple[tuple[Role, Text | Instruction | Conversation], ...]
    prompt: str  # what identifies the prompt: pairs of one prompt are not divided over stores
    margin: float | None = None
    group: str = ""
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Tokens:
    """A prompt and a completion as token ids. `learned`: which of the completion, None for all."""

    prompt: list[int]
    completion: list[int]
    learned: list[bool] | None = None
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Rollout:
    """An answer that a policy wrote."""

    member: Text | Conversation | Tokens
    values: dict[str, float | list[float]]  # of each column: one for the answer, or one a learned token
    reward: float | None = None  # given where advantages are computed from rewards


@dataclass(frozen=True, slots=True)
class Rollouts:
    """The answers of a record to its prompt. Those of the next records may belong to the same group."""

    members: tuple[Rollout, ...]
    prompt: str  # what identifies the prompt
    group: str = ""
    weight: float = 1.0


Document = Text | Instruction | Conversation | Preference | Rollouts
