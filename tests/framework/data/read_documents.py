"""Documents of a file, for tests."""

import pyarrow as pa
import pyarrow.parquet as pq
from prepare_program import write_lines

from packtrain_tools.sources.documents import BadRecord
from packtrain_tools.sources.files import list_files
from packtrain_tools.sources.formats import Reading, decode, find_format
from packtrain_tools.sources.readers import Reader

PLAIN = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}]


def documents(path, renamed=(), reading=Reading(), wanted=None):
    """Of a file, a fault in place of a bad record."""
    files, _ = list_files([str(path)])
    form = find_format(files[0], wanted, list(renamed), reading)
    found = []
    for chunk in Reader(files, None).chunks():
        for record in chunk.records():
            try:
                found.append(decode(record, form))
            except BadRecord as bad:
                found.append(bad.fault)
    return found


def only(path, *rows, **options):
    [document] = documents(write_lines(path / "a.jsonl", *rows), **options)
    return document


def write_table(path, rows, **types):
    columns = {name: pa.array([row.get(name) for row in rows], types.get(name))
               for name in dict.fromkeys(name for row in rows for name in row)}
    pq.write_table(pa.table(columns), path)
    return path
