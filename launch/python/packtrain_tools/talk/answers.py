"""Answers of a model, by transformers' generation."""

import sys
from dataclasses import dataclass, field
from typing import Any

from packtrain_tools.errors import CONFIG, DATA, MISSING, ToolError
from packtrain_tools.showing import printable_text


@dataclass(frozen=True)
class Sampling:
    max_new_tokens: int
    temperature: float  # 0: greedy
    top_p: float
    seed: int


def import_transformers():
    try:
        import torch
        import transformers
    except ImportError as error:
        raise ToolError(f"there is no Python package {error.name}", "Run launch/setup, or set PACKTRAIN_PYTHON.",
                        MISSING) from None
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    return torch, transformers


def _choose_device(torch, wanted: str) -> str:
    if wanted == "cuda" and not torch.cuda.is_available():
        raise ToolError("--device cuda: there is no GPU", exit_code=MISSING)
    if wanted == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    return wanted


@dataclass
class Conversation:
    """One model with its own messages."""

    folder: str
    device: str
    system: str | None = None
    messages: list[dict] = field(default_factory=list)
    torch: Any = None
    transformers: Any = None
    model: Any = None
    tokenizer: Any = None

    def load(self):
        """Loads weights from safetensors alone, and runs no code of the folder."""
        self.torch, self.transformers = import_transformers()
        device = _choose_device(self.torch, self.device)
        # float32 is faster than bfloat16 on most CPUs.
        dtype = "auto" if device == "cuda" else self.torch.float32
        options = {"trust_remote_code": False, "local_files_only": True}
        try:
            self.tokenizer = self.transformers.AutoTokenizer.from_pretrained(self.folder, **options)
            self.model = self.transformers.AutoModelForCausalLM.from_pretrained(
                self.folder, dtype=dtype, use_safetensors=True, **options).to(device).eval()
        except (OSError, ValueError, KeyError, ImportError, RuntimeError) as error:
            lines = str(error).strip().splitlines() or [type(error).__name__]
            raise ToolError(f"{self.folder}: transformers cannot load it: {lines[0][:300]}", exit_code=DATA) from None
        self.begin()

    @property
    def has_template(self) -> bool:
        return bool(self.tokenizer.chat_template)

    def begin(self):
        """Forgets the messages."""
        self.messages = [{"role": "system", "content": self.system}] if self.system else []

    def _encode(self, text: str):
        if not self.has_template:
            return self.tokenizer(text, return_tensors="pt")
        messages = [*self.messages, {"role": "user", "content": text}]
        try:
            return self.tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_tensors="pt",
                                                      return_dict=True)
        except Exception as error:  # a template may raise any error
            raise ToolError(f"{self.folder}: the chat template refuses the messages: {str(error)[:200]}",
                            exit_code=DATA) from None

    def answer(self, text: str, sampling: Sampling) -> str:
        """Prints the answer while it is generated, and keeps it for the next turn."""
        inputs = self._encode(text)
        length = inputs["input_ids"].shape[1]
        most = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        if length == 0:
            raise ToolError("the prompt has no token", "Write some text.", CONFIG)
        if most and length >= most:
            raise ToolError(f"the conversation has {length} tokens, and the model takes {most} with the answer",
                            "Begin another with /new.", CONFIG)
        num_new = min(sampling.max_new_tokens, most - length) if most else sampling.max_new_tokens
        self.torch.manual_seed(sampling.seed)
        streamer = self._streamer()
        with self.torch.inference_mode():
            ids = self.model.generate(**inputs.to(self.model.device), streamer=streamer,
                                      generation_config=self._settings(sampling, num_new))
        said = self.tokenizer.decode(ids[0, length:], skip_special_tokens=True)
        if self.has_template:
            self.messages += [{"role": "user", "content": text}, {"role": "assistant", "content": said}]
        return said

    def _end_tokens(self) -> list[int]:
        """Those of the folder, and the one that the template writes after an answer. An adapter does not have it."""
        own = self.model.generation_config.eos_token_id
        own = self.tokenizer.eos_token_id if own is None else own
        ends = [one for one in (own if isinstance(own, list) else [own]) if one is not None]
        mark = "an answer"
        try:
            text = self.tokenizer.apply_chat_template(
                [{"role": "user", "content": "a question"}, {"role": "assistant", "content": mark}], tokenize=False)
        except Exception:  # there is no template, or it refuses such messages
            return ends
        rest = self.tokenizer(text.rpartition(mark)[2], add_special_tokens=False)["input_ids"]
        added = [one for one in rest if one in self.tokenizer.added_tokens_decoder]
        return ends + [one for one in added[:1] if one not in ends]

    def _settings(self, sampling: Sampling, num_new: int):
        """The sampling that the folder asks for is not used."""
        own = self.model.generation_config
        end = self._end_tokens()
        pad = own.pad_token_id if own.pad_token_id is not None else next(iter(end), 0)
        chosen = {"do_sample": True, "temperature": sampling.temperature, "top_p": sampling.top_p,
                  "top_k": 0} if sampling.temperature > 0 else {"do_sample": False}
        return self.transformers.GenerationConfig(max_new_tokens=num_new, eos_token_id=end or None,
                                                  pad_token_id=pad, bos_token_id=own.bos_token_id, **chosen)

    def _streamer(self):
        streamer = self.transformers.TextStreamer(self.tokenizer, skip_prompt=True, skip_special_tokens=True)
        streamer.on_finalized_text = show
        return streamer


def show(text: str, stream_end: bool = False):
    """Escapes control characters, so that a model cannot steer the terminal."""
    sys.stdout.write(printable_text(text) + ("\n" if stream_end else ""))
    sys.stdout.flush()
