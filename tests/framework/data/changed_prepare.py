"""changed_prepare.py WHEN SHARD_TOKENS ARGUMENT...: `prepare` with small chunks and shards.

It prints the memory that it took, and ends itself as WHEN says. WHEN is never, term:N (SIGTERM at chunk
N), kill:N (SIGKILL after save N), or died:N (SIGKILL before save N is complete). CHANGED_EXAMPLES=1 in the
environment changes examples. Those with the same first four ids are a group, and every third has
half the weight. Each chunk counts five empty answers, and the encoder reports that a template asked
for the date."""

import dataclasses
import os
import re
import signal
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "launch" / "python"))

import prepare

from packtrain_tools.prepare import encoding, preparation, splitting, store
from packtrain_tools.prepare.examples import group_hash, make_examples
from packtrain_tools.prepare.loss_weights import mask_byte
from packtrain_tools.errors import run_main
from packtrain_tools.sources import readers

how, _, number = sys.argv[1].partition(":")
store.StoreWriter.__init__.__defaults__ = (int(sys.argv[2]), False)
readers.CHUNK_RECORDS = 20
splitting.POOL_SLACK = 50
if how != "never":
    preparation.SECONDS_BETWEEN_SAVES = 0.0
del sys.argv[1:3]
calls = 0


def at(wanted, number_of_signal):
    global calls
    if how == wanted:
        calls += 1
        if calls == int(number):
            os.kill(os.getpid(), number_of_signal)


def around(function, before, after):
    def changed(*arguments):
        at(before, signal.SIGKILL)
        result = function(*arguments)
        at(after, signal.SIGTERM if after == "term" else signal.SIGKILL)
        return result

    return changed


def change_examples(encode):
    def changed(*arguments):
        chunk = encode(*arguments)
        ends = np.cumsum(chunk.examples.lengths)[:-1]
        rows = np.split(chunk.examples.input_ids, ends)
        masks = [mask * (mask_byte(0.5) if len(mask) % 3 == 0 else 1)
                 for mask in np.split(chunk.examples.loss_mask, ends)]
        examples = make_examples(rows, masks, chunk.examples.source,
                                 [group_hash(row[:4].tobytes()) for row in rows])
        return dataclasses.replace(chunk, examples=examples, counts={"empty_answers": 5})

    return changed


if os.environ.get("CHANGED_EXAMPLES"):
    encoding.Encoder.encode = change_examples(encoding.Encoder.encode)
    encoding.Encoder.uses_date = True
preparation.Preparation._take = around(preparation.Preparation._take, "", "term")
preparation.Preparation._save = around(preparation.Preparation._save, "", "kill")
preparation.write_json = around(preparation.write_json, "died", "")
exit_code = run_main("packtrain prepare", prepare.main)
# Not ru_maxrss, which a process takes over from the one that started it.
print("peak KiB", re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text())[1],
      file=sys.stderr)
sys.exit(exit_code)
