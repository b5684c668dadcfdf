"""Tests that the configurations that documents show can be read."""

import os
import re
import subprocess
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parents[2]
PROGRAM = os.environ["PACKTRAIN_PROGRAM"]
SECTIONS = re.compile(r"^(model|objective|data|run): ?\{", re.MULTILINE)


def blocks():
    for page in sorted((REPO / "docs").glob("*.md")):
        for number, text in enumerate(re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)):
            if SECTIONS.search(text) and "..." not in text:
                yield pytest.param(text, id=f"{page.stem}-{number}")


@pytest.mark.parametrize("text", blocks())
def test_a_configuration_in_a_document_has_only_known_keys(tmp_path, text):
    (tmp_path / "config.yaml").write_text(text)
    run = subprocess.run([PROGRAM, "config", tmp_path / "config.yaml"], capture_output=True, text=True, timeout=60)
    assert "unknown" not in run.stderr, run.stderr
