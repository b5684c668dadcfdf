// Token stores from pretokenized JSONL: one example a line, an object with
//   input_ids: [id, ...]           at least one id, each in 0..vocab_size-1
//   labels:    [id or -100, ...]   optional; as long as input_ids, each its id or -100
// A label tells whether its own token is supervised: no shift. Without labels every token is.
// Other keys are ignored, empty lines skipped. A line has at most kMaxLineBytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/bad_lines.h"
#include "framework/data/token_store.h"

namespace packtrain {

// Streams `files`, in this order, into a new store; each file is one source, named as given.
// Throws Error(kData) naming the file, the line, its byte, what was got and what was wanted; under
// a policy that skips, only when too many lines are bad.
StoreInfo prepare_pretokenized(const std::vector<std::string>& files, std::int64_t vocab_size,
                               const std::string& out, bool overwrite,
                               const BadLinePolicy& policy = {});

}  // namespace packtrain
