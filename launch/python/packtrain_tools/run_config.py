"""The resolved configuration of a run, config.yaml in its folder."""

import os

import yaml

from packtrain_tools.errors import DATA, ToolError

NAME = "config.yaml"


def read_run(folder: str) -> dict:
    """The resolved configuration of a run. Empty for other folders."""
    path = os.path.join(folder, NAME)
    if not os.path.isfile(path):
        return {}
    try:
        with open(path, encoding="utf-8") as stream:
            config = yaml.safe_load(stream)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ToolError(f"{path}: is no YAML: {str(error).splitlines()[0]}", exit_code=DATA) from None
    return config if isinstance(config, dict) else {}


def section(config: dict, name: str) -> dict:
    """A section of a configuration. Empty where the file has something else there."""
    values = config.get(name)
    return values if isinstance(values, dict) else {}


def stores_of(config: dict) -> list[str]:
    """Folders of the stores of data.train, and of those of adapters."""
    entries = [section(config, "data").get("train")]
    adapters = config.get("adapters")
    entries += [one.get("train") for one in adapters if isinstance(one, dict)] if isinstance(adapters, list) else []
    folders = []
    for entry in entries:
        for one in entry if isinstance(entry, list) else [entry]:
            path = one.get("path") if isinstance(one, dict) else one
            if isinstance(path, str) and path:
                folders.append(path)
    return folders
