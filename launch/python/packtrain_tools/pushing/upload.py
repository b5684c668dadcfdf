"""Uploads a folder to the Hugging Face Hub as one commit."""

import fnmatch
import os

from packtrain_tools.errors import CONFIG, DATA, MISSING, ToolError
from packtrain_tools.hub_model import import_hub
from packtrain_tools.json_object import read_object

ADAPTER_CONFIG = "adapter_config.json"
# `packtrain export` and `merge` write these. Pickles and code are not among them.
PATTERNS = ("*.safetensors", "*.safetensors.index.json", "config.json", "generation_config.json", ADAPTER_CONFIG,
            "tokenizer*.json", "special_tokens_map.json", "added_tokens.json", "vocab.json", "vocab.txt", "merges.txt",
            "tokenizer.model", "chat_template.jinja", "additional_chat_templates/*.jinja", "*processor_config.json")


def list_files(folder: str) -> tuple[list[str], list[str]]:
    """Relative paths of files to upload, and of those that are left out."""
    taken: list[str] = []
    left: list[str] = []
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.relpath(os.path.join(place, name), folder)
            fits = any(fnmatch.fnmatchcase(path, pattern) for pattern in PATTERNS)
            is_at_top = "/" not in path or path.startswith("additional_chat_templates/")
            (taken if fits and is_at_top else left).append(path)
    if not any(path.endswith(".safetensors") for path in taken):
        raise ToolError(f"{folder}: has no weights (*.safetensors)",
                        "Give what `packtrain export` or `merge` wrote; a run is exported first.", DATA)
    return taken, [path for path in left if path != "README.md"]


def read_adapter(folder: str) -> dict:
    """adapter_config.json; empty for a whole model."""
    return read_object(os.path.join(folder, ADAPTER_CONFIG), DATA)


def upload(repository: str, branch: str | None, private: bool, message: str, files: dict[str, str | bytes]) -> str:
    """`files`: paths or contents, by their path in the repository. Returns the address of the commit."""
    hub = import_hub()
    if hub.is_offline_mode():
        raise ToolError("the hub cannot be reached: HF_HUB_OFFLINE is set",
                        "Unset it, or see the card with --card-only.", MISSING)
    api = hub.HfApi()
    operations = [hub.CommitOperationAdd(path_in_repo=path, path_or_fileobj=content) for path, content in files.items()]
    try:
        api.create_repo(repository, private=private or None, exist_ok=True)
        return api.create_commit(repository, operations, commit_message=message, revision=branch).commit_url
    except hub.errors.HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        advice = "Log in with `hf auth login`, or set HF_TOKEN to a token that may write."
        advice = advice if status in (401, 403) else ""
        raise ToolError(f"{repository}: the hub answered {status}: {_first_line(error)}", advice, MISSING) from None
    except ValueError as error:
        raise ToolError(f"{repository}: {_first_line(error)}", exit_code=CONFIG) from None
    except Exception as error:  # of the network and its libraries
        raise ToolError(f"{repository}: cannot be reached: {type(error).__name__}: {_first_line(error)}",
                        "Look at the network, and at HF_ENDPOINT.", MISSING) from None


def _first_line(error: Exception) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0][:200] if lines else type(error).__name__
