// Keys of attention where the examples of a group share their prefix. A group has as many keys as
// its examples have tokens: kernels for packed sequences copy the prefix for each example but one
// (models/ops/attention/expanded_keys.h).
#pragma once

#include <cstdint>
#include <string>

#include "framework/config/config.h"
#include "framework/data/token_store.h"

namespace packtrain {

// The most keys for each row of any group of the store: tokens of its examples / rows that are
// computed. 1 without groups. Compares the tokens of all groups, with several threads. For turns it
// is an upper limit that reads lengths alone: conversations are many.
double keys_of_row(const TokenStore& store);
// Sets batch.keys_of_row where the run shares prefixes of rollouts or turns. Pairs have a limit of
// their own.
void set_keys_of_row(const TokenStore& store, Config& config);

struct KeyBound {
  std::int64_t num_keys = 0;  // 0: the run shares no prefix
  std::string basis;          // for people
};

// The most keys of a micro-batch of `num_rows`, by batch.keys_of_row. Where that is not known,
// pairs have 2 a row. For rollouts it assumes groups of 16 answers, which the basis says. Next
// tokens are then those of plain examples.
KeyBound key_bound(const Config& config, std::int64_t num_rows);

}  // namespace packtrain
