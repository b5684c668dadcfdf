"""Tools of instructions: they are in the text of a conversation, and refused where instructions become text."""

import json

import pytest
from encoded_rows import chunk_of, rows_of
from family_templates import FAMILIES, make_folder
from test_history import texts_of
from test_encoding import text_folder

TOOLS = [{"type": "function", "function": {"name": "count", "description": "birds", "parameters": {"type": "object"}}}]
ROW = {"instruction": "How many?", "input": "", "output": "Three."}
PAIR = {"instruction": "How many?", "chosen": "Three.", "rejected": "Four."}


@pytest.fixture
def folder(tmp_path):
    return make_folder(FAMILIES["qwen2_5"], "byte_level_nfc", tmp_path)


@pytest.mark.parametrize("more", [{"tools": TOOLS}, {"tools": json.dumps(TOOLS)}, {"functions": [TOOLS[0]["function"]]}])
def test_a_conversation_has_the_tools_of_its_instruction(folder, tmp_path, more):
    messages = [{"role": "user", "content": "How many?"}, {"role": "assistant", "content": "Three."}]
    wanted = rows_of(chunk_of(folder, tmp_path, [{"messages": messages, "tools": TOOLS}]))
    assert rows_of(chunk_of(folder, tmp_path, [ROW | more])) == wanted
    assert rows_of(chunk_of(folder, tmp_path, [ROW | {"label": True} | more])) == wanted
    assert rows_of(chunk_of(folder, tmp_path, [PAIR | more]))[:1] == wanted


@pytest.mark.parametrize("row", [ROW, PAIR])
def test_instructions_with_tools_do_not_become_text(tmp_path, row):
    folder = text_folder(tmp_path, "byte_level")
    for empty in (None, [], "", "[]"):
        assert not texts_of(folder, tmp_path, row | {"tools": empty})[1].bad
    [(_, bad)] = chunk_of(folder, tmp_path, [row | {"tools": TOOLS}]).bad
    assert "has tools, and instructions become text (--instructions-as chat" in bad.fault
