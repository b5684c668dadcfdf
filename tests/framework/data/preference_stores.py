"""Stores of pairs that are made of records, and a tokenizer with the special tokens of chat templates."""

import json

import chat_templates
import tokenizers
from prepare_program import dump, run_tool, write_lines

PAIRS = [{"prompt": f"The owl {i}", "chosen": f" saw {i} birds", "rejected": " ran" * (1 + i % 5)} for i in range(120)]


def prepare(tokenizer, folder, source, *options, exit_code=0):
    return run_tool("prepare.py", source, "--tokenizer", tokenizer, "--out", folder / "store", *options,
                    exit_code=exit_code)


def store_of(tokenizer, folder, rows, *options):
    result = prepare(tokenizer, folder, write_lines(folder / "rows.jsonl", *rows), *options)
    return dump(folder / "store"), result


def make_chat_folder(tokenizer_folder, folder):
    tokenizer = tokenizers.Tokenizer.from_file(str(tokenizer_folder / "tokenizer.json"))
    tokenizer.add_special_tokens(chat_templates.SPECIAL_TOKENS)
    tokenizer.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}))
    return folder


def chats(answer):
    return [{"role": "system", "content": "Count."}, {"role": "user", "content": "The owl?"},
            {"role": "assistant", "content": "saw 3 birds"}, {"role": "user", "content": "And the fox?"},
            {"role": "assistant", "content": answer}]
