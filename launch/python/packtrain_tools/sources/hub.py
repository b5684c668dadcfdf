"""Data sets of the Hugging Face Hub: hf:OWNER/NAME[/CONFIG][@REVISION][:SPLIT], read through
`datasets`, which downloads them once into its own cache (HF_HOME)."""

import functools
import re

from packtrain_tools.errors import CONFIG, ToolError

_NAME = re.compile(r"hf:(?P<name>[\w.-]+/[\w.-]+|[\w.-]+)(?:/(?P<config>[\w.+-]+))?"
                   r"(?:@(?P<revision>[^:]+))?(?::(?P<split>.+))?")


@functools.cache
def open_hub(source: str):
    """The data set, mapped from the cache."""
    named = _NAME.fullmatch(source)
    if not named:
        raise ToolError(f"{source}: is no name of a data set", "Write "
                        "hf:OWNER/NAME[/CONFIG][@REVISION][:SPLIT].", CONFIG)
    try:
        import datasets
    except ImportError as error:
        raise ToolError(f"{source}: needs a Python package that is missing ({error.name})",
                        "Run launch/setup, or install launch/requirements-data.txt.",
                        CONFIG) from None
    try:
        return datasets.load_dataset(named["name"], named["config"], revision=named["revision"],
                                     split=named["split"] or "train")
    except Exception as error:  # errors of the library, of the hub library, and of their dependencies
        raise ToolError(f"{source}: cannot be loaded: {type(error).__name__}: "
                        f"{str(error).strip().splitlines()[0] if str(error) else ''}",
                        "Without a network it must be in the cache of `datasets` (HF_HOME); or "
                        "download its files and name those.") from None


def hub_size(source: str) -> int:
    """Bytes in memory."""
    return open_hub(source).data.nbytes
