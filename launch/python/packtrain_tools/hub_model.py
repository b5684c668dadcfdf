"""Models of the Hugging Face Hub: hf:OWNER/NAME[@REVISION], downloaded once into its own cache (HF_HOME)."""

import re

from packtrain_tools.errors import CONFIG, DATA, MISSING, ToolError

NAME = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?")
TOKENIZER_FILES = ["*.json", "*.jinja", "*.txt", "tokenizer.model", "additional_chat_templates/*"]
FILES = [*TOKENIZER_FILES, "*.safetensors"]


def is_hub_name(name: str) -> bool:
    return name.startswith("hf:")


def import_hub():
    try:
        import huggingface_hub
    except ImportError:
        raise ToolError("there is no Python package huggingface_hub", "Run launch/setup, or set PACKTRAIN_PYTHON.",
                        MISSING) from None
    return huggingface_hub


def parse_name(name: str) -> tuple[str, str | None]:
    """OWNER/NAME and the revision."""
    named = NAME.fullmatch(name)
    if not named:
        raise ToolError(f"{name}: is no name of a model", "Write hf:OWNER/NAME[@REVISION].", CONFIG)
    return named["name"], named["revision"]


def tokenizer_folder(name: str) -> str:
    """The folder of a model in the cache, with its tokenizer. Weights are not downloaded. Raises ToolError."""
    return model_folder(name, TOKENIZER_FILES)


def model_folder(name: str, files: list[str] | None = None) -> str:
    """The folder of a model in the cache: safetensors, and neither code nor pickles. Raises ToolError."""
    repository, revision = parse_name(name)
    hub = import_hub()
    try:
        return hub.snapshot_download(repository, revision=revision, allow_patterns=files or FILES)
    except Exception as error:  # errors of the library and of its dependencies
        reason = str(error).strip().splitlines()
        raise ToolError(f"{name}: cannot be loaded: {type(error).__name__}: {reason[0][:200] if reason else ''}",
                        "Without a network it must be in the cache of the hub (HF_HOME); or give a folder.",
                        DATA) from None
