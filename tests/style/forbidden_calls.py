#!/usr/bin/env python3
"""Finds calls that hand a file's content, or a name, to something that may run it: a shell, or an
unpickler (docs/reliability.md).

    forbidden_calls.py [ROOT]    prints every one; exit code 1 when there is one
"""

import pathlib
import re

from run_check import run_check

# Tests and benchmarks may start programs and read what others wrote.
FOLDERS = ("framework", "samplers", "collators", "models", "parallel", "training", "launch")
FORBIDDEN = {
    ".cpp .h .cu .cuh": {
        r"(?<![\w.>])(?:std::|::)?system\s*\(": "starts a shell",
        r"(?<![\w.>])(?:::)?popen\s*\(": "starts a shell",
        r"\b(?:torch::|at::)?(?:pickle_load|pickle_save)\s*\(": "pickle",
        r"\btorch::(?:jit::)?(?:load|save|unpickle|pickle)\s*\(": "pickle",
        r"\btorch/csrc/jit/serialization/": "pickle",
        r"\bexec[lv]p?e?\s*\(\s*\"(?:/bin/)?(?:ba)?sh\"": "starts a shell",
    },
    ".py": {
        r"\bimport\s+(?:pickle|shelve|marshal|dill|joblib)\b": "pickle",
        r"\btorch\.(?:load|save)\s*\(": "pickle",
        r"\bos\.(?:system|popen)\s*\(": "starts a shell",
        r"\bshell\s*=\s*True\b": "starts a shell",
        r"allow_pickle\s*=\s*True": "pickle",
        r"(?<![\w.])(?:eval|exec)\s*\(": "runs text",
        r"trust_remote_code\s*=\s*True": "runs downloaded code",
    },
}


def find_faults(root: pathlib.Path) -> list[str]:
    faults = []
    for suffixes, patterns in FORBIDDEN.items():
        compiled = [(re.compile(pattern), why) for pattern, why in patterns.items()]
        files = [file for folder in FOLDERS for file in sorted((root / folder).rglob("*"))
                 if file.suffix in suffixes.split()]
        for file in files:
            for number, line in enumerate(file.read_text().splitlines(), start=1):
                faults += [f"{file.relative_to(root)}:{number}: {why}: {line.strip()}"
                           for pattern, why in compiled if pattern.search(line)]
    return faults


if __name__ == "__main__":
    run_check(find_faults)
