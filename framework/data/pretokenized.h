// Token stores from pretokenized JSONL. A line is one example, an object with two keys.
//   input_ids: [id, ...]           At least one id, each in 0..vocab_size-1.
//   labels:    [id or -100, ...]   Optional. As long as input_ids, each its id or -100.
// A label says whether its own token is supervised, without a shift. Lists of 0 and 1 may take
// their place: `loss_mask`, `completion_mask`, `assistant_masks`. A token is supervised where all
// of them have 1. Next to labels they must say the same. Without any of them every token is
// supervised. All lines of a file have one of them, or none. Tokens at the begin and the end where
// `attention_mask` is 0 are padding, and left out. Columns of tokens, which the caller names, are
// further lists of numbers of the same length. A number in place of a list is the value of all
// supervised tokens. Lines of several examples are refused: those with more than one entry of
// `seq_lengths`, or with `position_ids` that are not consecutive. So is a `weight` of 0 or more and
// less than 1 that is no column. Other keys and empty lines are ignored. A line has at most
// kMaxLineBytes. Or a line is one group (example_groups.h): {"chosen": EXAMPLE, "rejected":
// EXAMPLE}, or
// {"desirable": EXAMPLE} and {"undesirable": EXAMPLE}, or {"rollouts": [EXAMPLE, ...]}, or
// {"turns": [EXAMPLE, ...]}. Each EXAMPLE is such an object with labels. `margin`, a number, is
// optional for pairs and judged answers. All lines have the form of the first one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "framework/data/bad_lines.h"
#include "framework/data/token_store.h"

namespace packtrain {

// Streams `files` in this order into a new store. Each file is one source, named as given. Throws
// Error(kData) with file, line, byte, the value and the expected value. With a policy that skips,
// it throws only for too many bad lines. Throws Error(kConfig) for a name that no column of tokens
// can have. `token_columns`: names of the keys with a number for each token.
StoreInfo prepare_pretokenized(const std::vector<std::string>& files, std::int64_t vocab_size,
                               const std::string& out, bool overwrite,
                               const BadLinePolicy& policy = {},
                               const std::vector<std::string>& token_columns = {});

}  // namespace packtrain
