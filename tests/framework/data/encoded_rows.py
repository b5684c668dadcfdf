"""Records through an Encoder, for tests."""

import dataclasses
import itertools

from prepare_program import write_lines

from packtrain_tools.chat.mask import ChatMask, MaskOptions
from packtrain_tools.chat.template import load_chat_template
from packtrain_tools.prepare.encoding import Encoder, EncodingOptions
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.formats import find_format
from packtrain_tools.sources.readers import Reader


def chunk_of(folder, path, rows: list[dict], options: EncodingOptions = EncodingOptions(),
             mask: MaskOptions = MaskOptions()):
    files, _ = list_files([str(write_lines(path / "rows.jsonl", *rows))])
    encoder = Encoder(str(folder), options)
    encoder.set_formats({file.path: find_format(file, None, []) for file in files})
    template = load_chat_template(str(folder), None, encoder.settings, {}, special_tokens=encoder.named_tokens())
    if template is not None:
        mask = dataclasses.replace(mask, names_are_text=options.special_in_data == "plain")
        encoder.set_chat(ChatMask(template, mask, encoder.special_tokens(), encoder.added_tokens(),
                                  encoder.named_tokens().get("eos_token")), True)
    [chunk] = [encoder.encode(chunk) for chunk in Reader(files, None).chunks()]
    return chunk


def rows_of(chunk) -> list[tuple[list[int], list[int]]]:
    ends = list(itertools.accumulate(chunk.examples.lengths.tolist()))
    return [(chunk.examples.input_ids[end - length:end].tolist(), chunk.examples.loss_mask[end - length:end].tolist())
            for end, length in zip(ends, chunk.examples.lengths.tolist())]


def learned(row) -> list[int]:
    return [token for token, is_learned in zip(*row) if is_learned]


def unlearned(row) -> list[int]:
    return [token for token, is_learned in zip(*row) if not is_learned]
