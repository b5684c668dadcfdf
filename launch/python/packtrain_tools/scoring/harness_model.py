"""The model `packtrain` of lm_eval (lm-evaluation-harness). Tokens and windows are those of its model `hf`."""

import os
import shutil
from collections.abc import Iterable
from typing import NoReturn

from lm_eval import utils
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model

from packtrain_tools.errors import CONFIG, MISSING, ToolError
from packtrain_tools.hub_model import is_hub_name, model_folder
from packtrain_tools.program import HOME
from packtrain_tools.scoring.engine import Engine
from packtrain_tools.sweep_runs import count_gpus
from packtrain_tools.talk.answers import import_transformers

LENGTHS = ("n_positions", "max_position_embeddings", "n_ctx")  # of config.json, as `hf` has them
DEFAULT_LENGTH = 2048
DTYPES = {"float32": "fp32", "bfloat16": "bf16"}


def program_for_lm_eval(given: str | None) -> str:
    """`given`, or PACKTRAIN_PROGRAM, or that of this installation or build folder, or of PATH."""
    places = [given, os.environ.get("PACKTRAIN_PROGRAM"), os.path.join(HOME, "bin", "packtrain"),
              os.path.join(os.path.dirname(HOME), "build", "bin", "packtrain"), shutil.which("packtrain")]
    for place in places:
        if place and (place == given or os.access(place, os.X_OK)):
            return place
    raise ToolError("there is no packtrain", "Set PACKTRAIN_PROGRAM to its path.", MISSING)


def refuse_generation(tasks: Iterable[str]) -> NoReturn:
    raise ToolError(f"{', '.join(tasks)}: generates text (generate_until), and packtrain scores given texts",
                    "Run it with lm_eval's models `hf` or `vllm`, on a folder of `packtrain export`.", CONFIG)


@register_model("packtrain")
class PacktrainModel(TemplateLM):
    """Log-likelihoods by packed batches of packtrain. It generates no text."""

    def __init__(self, pretrained: str, peft: str | None = None, tokenizer: str | None = None,
                 dtype: str = "auto", max_length: int | None = None, add_bos_token: bool | None = None,
                 prefix_token_id: int | None = None, ranks: int | None = None, program: str | None = None,
                 settings: str = "", batch_size=None, max_batch_size=None, device: str | None = None):
        """`pretrained`: a Hugging Face folder or hf:OWNER/NAME. `peft`: a PEFT folder. `dtype`: auto is bfloat16 on
        GPUs, else float32. `ranks`: processes (default: one for each GPU, else one). `settings`: section.key=value,
        divided by semicolons. Batch sizes have no effect: batches are packed by batch.max_tokens_per_micro_batch."""
        super().__init__()
        del batch_size, max_batch_size
        _, transformers = import_transformers()
        folder = model_folder(pretrained) if is_hub_name(pretrained) else pretrained
        options = {"trust_remote_code": False, "local_files_only": True}
        try:
            config = transformers.AutoConfig.from_pretrained(folder, **options).get_text_config()
            self.tokenizer = transformers.AutoTokenizer.from_pretrained(
                tokenizer or folder, **options, **({} if add_bos_token is None else {"add_bos_token": add_bos_token}))
        except (OSError, ValueError, KeyError) as error:
            raise ToolError(f"{folder}: transformers cannot load it: {str(error).splitlines()[0][:300]}") from None
        self._add_bos_token = add_bos_token
        self._prefix_token_id = prefix_token_id
        program = program_for_lm_eval(program)
        gpus = 0 if device == "cpu" else count_gpus(program)
        if dtype != "auto" and dtype not in DTYPES:
            raise ToolError(f"dtype is {dtype}, wanted auto, {' or '.join(DTYPES)}", exit_code=CONFIG)
        self._engine = Engine(
            program, folder, config.vocab_size, max_length or self._longest(config), adapter=peft,
            ranks=ranks or max(1, gpus), compute=DTYPES.get(dtype) or ("bf16" if gpus else "fp32"),
            settings=tuple(one for one in settings.split(";") if one))

    def _longest(self, config) -> int:
        for name in LENGTHS:
            if getattr(config, name, None) is not None:
                return int(getattr(config, name))
        of_tokenizer = self.tokenizer.model_max_length
        return int(of_tokenizer) if of_tokenizer < 1e30 else DEFAULT_LENGTH

    @property
    def eot_token_id(self) -> int:
        return self.tokenizer.eos_token_id

    @property
    def prefix_token_id(self) -> int:
        tokens = (self._prefix_token_id, self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        return next(token for token in tokens if token is not None)

    @property
    def max_length(self) -> int:
        return self._engine.max_length

    @property
    def tokenizer_name(self) -> str:
        return self.tokenizer.name_or_path.replace("/", "__")

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **kwargs) -> list[int]:
        if add_special_tokens is None:
            has_prefix = string.startswith(self.tokenizer.decode(self.prefix_token_id))
            add_special_tokens = False if has_prefix else self._add_bos_token
        chosen = {} if add_special_tokens is None else {"add_special_tokens": add_special_tokens}
        return self.tokenizer.encode(string, **chosen)

    def apply_chat_template(self, chat_history: list[dict[str, str]], add_generation_prompt: bool = True) -> str:
        return self.tokenizer.apply_chat_template(chat_history, tokenize=False,
                                                  add_generation_prompt=add_generation_prompt,
                                                  continue_final_message=not add_generation_prompt)

    def _loglikelihood_tokens(self, requests, disable_tqdm: bool = False, **kwargs) -> list[tuple[float, bool]]:
        results = self._engine.log_likelihoods((context, continuation) for _, context, continuation in requests)
        for (texts, _, _), result in zip(requests, results):
            if texts is not None:
                self.cache_hook.add_partial("loglikelihood", texts, result)
        return results

    def _windows(self, text: str) -> Iterable[tuple[list[int], list[int]]]:
        """Every token once as a continuation, in windows that follow each other."""
        windows = utils.get_rolling_token_windows(token_list=self.tok_encode(text), prefix_token=self.prefix_token_id,
                                                  max_seq_len=self.max_length, context_len=1)
        return map(utils.make_disjoint_window, windows)

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        windows = [(number, window) for number, request in enumerate(requests)
                   for window in self._windows(request.args[0])]
        results = self._engine.log_likelihoods(window for _, window in windows)
        sums = [0.0] * len(requests)
        for (number, _), (log_likelihood, _) in zip(windows, results):
            sums[number] += log_likelihood
        for request, total in zip(requests, sums):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return sums

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        refuse_generation(sorted({str(request.task_name) for request in requests}))
