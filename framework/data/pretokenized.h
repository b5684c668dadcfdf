// Token stores from pretokenized JSONL. Each line is one example, an object with two keys.
//   input_ids: [id, ...]           At least one id, each in 0..vocab_size-1.
//   labels:    [id or -100, ...]   Optional. As long as input_ids, each its id or -100.
// A label says whether its own token is supervised, without a shift. Without labels every token is
// supervised. Other keys and empty lines are ignored. A line has at most kMaxLineBytes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/bad_lines.h"
#include "framework/data/token_store.h"

namespace packtrain {

// Streams `files` in this order into a new store. Each file is one source, named as given. Throws
// Error(kData) with file, line, byte, the value and the expected value. With a policy that skips,
// it throws only for too many bad lines.
StoreInfo prepare_pretokenized(const std::vector<std::string>& files, std::int64_t vocab_size,
                               const std::string& out, bool overwrite,
                               const BadLinePolicy& policy = {});

}  // namespace packtrain
