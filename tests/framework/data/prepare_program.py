"""Running the tools as programs, and reading stores back through C++."""

import json
import os
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[3] / "launch" / "python"
STORE_DUMP = os.environ["PACKTRAIN_STORE_DUMP"]
sys.path.insert(0, str(TOOLS))

CORPUS = [f"The {a} {b} saw {c} birds.\n" for a in ("old", "young", "wise")
          for b in ("fox", "owl", "hare") for c in range(20)]


def run_tool(name, *arguments, exit_code=0, environment=None):
    result = subprocess.run([sys.executable, TOOLS / name, *map(str, arguments)],
                            capture_output=True, text=True, timeout=100,
                            env=os.environ | (environment or {}))
    assert result.returncode == exit_code, result.stderr
    assert "Traceback" not in result.stderr
    return result


def changed_prepare(when, *arguments, shard_tokens=4000, environment=None):
    return subprocess.run([sys.executable, Path(__file__).with_name("changed_prepare.py"), when,
                           str(shard_tokens), *map(str, arguments)],
                          capture_output=True, text=True, timeout=100,
                          env=os.environ | (environment or {}))


def files_of(*folders):
    """Contents of all files, by path below the folder."""
    return [{str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*"))
             if path.is_file()} for folder in folders]


def dump(store):
    result = subprocess.run([STORE_DUMP, store], capture_output=True, text=True, timeout=100)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


def write_lines(path, *values):
    path.write_text("".join(json.dumps(value) + "\n" for value in values))
    return path


def ids_of(oracle, text):
    return oracle(text, add_special_tokens=False)["input_ids"]


def learned_text(oracle, example):
    """The learned parts of a store's example, as text, the others as [n]."""
    parts = []
    for token, is_learned in zip(example["input_ids"], example["loss_mask"]):
        if not parts or parts[-1][0] != is_learned:
            parts.append((is_learned, []))
        parts[-1][1].append(token)
    return [oracle.decode(tokens) if is_learned else None for is_learned, tokens in parts]
