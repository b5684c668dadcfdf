// Token store: tokenized examples of different lengths, memory-mapped. A store is a folder with
// `store.json` and one or more safetensors files.
// - store.json has format version, tokenizer name and hash, vocabulary size, source names, counts
//   and the list of shard files.
// - A safetensors file has tensors by token and by example.
//   Tokens: input_ids int32 [num_tokens], loss_mask uint8 [num_tokens].
//   Examples: offsets int64 [num_examples + 1], num_loss_tokens int32 [num_examples],
//   source int16 [num_examples].
// loss_mask[t] = 1: token t is predicted from the tokens before it in its example. The first token
// of an example has no predecessor and never counts. So num_loss_tokens[e] is the number of nonzero
// bytes in loss_mask of tokens 1..L-1 of example e.
// Stores of groups (example_groups.h) have `groups` in store.json. They have more tensors.
//   Groups: group_offsets int64 [num_groups + 1], each group's first example in the shard.
//   Optional: margin float32 [num_groups]. Examples: group_role uint8 [num_examples].
//   Pairs have two examples, judged answers one, rollouts and turns one or more.
// `token_columns` in store.json is an optional list of names. Each has a tensor token.NAME float32
// [num_tokens]. `requires` names `groups` and `token_columns` where they are present.
// `loss_weights` in store.json is an optional list of numbers: entry m is the loss weight of a
// token with mask byte m (token_weights.h). `requires` then names it.
// bad-lines.jsonl (bad_lines.h) lists lines of the sources that were skipped, if any.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/example_counts.h"
#include "framework/data/example_groups.h"
#include "framework/data/loss_weights.h"
#include "framework/data/token_weights.h"

namespace packtrain {

struct StoreInfo {
  int format_version = 1;
  std::string tokenizer;       // folder inside the store with the tokenizer's files, or ""
  std::string tokenizer_name;  // as the user named it
  std::string tokenizer_hash;  // SHA-256 hex of tokenizer.json, or ""
  std::int64_t vocab_size = 0;
  std::vector<std::string> sources;
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_loss_tokens = 0;
  std::int64_t num_bad_lines = 0;    // lines of the sources that were skipped (bad-lines.jsonl)
  std::vector<double> loss_weights;  // by mask byte; empty: bytes are 0 and 1
  std::optional<GroupInfo> groups;   // none: the examples are plain
  std::vector<std::string> token_columns;  // names of float columns
};

// Store and index of an example before stores were joined.
struct ExampleOrigin {
  std::string_view store;    // its folder
  std::int64_t repeat = 0;   // from 0
  std::int64_t example = 0;  // of that store
};

// One store of a joined store.
struct StoreUse {
  std::string folder;
  std::int64_t first_example = 0;  // index in the joined store
  std::int64_t num_examples = 0;   // in an epoch
  std::int64_t num_stored = 0;     // in the store itself
};

class TokenStore {
 public:
  // Reads store.json. Each shard is mapped, and its header checked, when its first example is used.
  // Values of an example are checked when they are requested. check_tokens() checks ids and masks,
  // check_all() everything. All functions throw Error(kData) with file, example and token.
  static std::unique_ptr<TokenStore> open(const std::string& folder);
  virtual ~TokenStore() = default;

  virtual const StoreInfo& info() const = 0;
  virtual const std::string& folder() const = 0;
  // [num_examples], in memory or mapped. The store must outlive the views.
  virtual ExampleCounts lengths() const = 0;
  virtual ExampleCounts num_loss_tokens() const = 0;
  virtual std::span<const std::int32_t> input_ids(std::int64_t example) const = 0;
  virtual std::span<const std::uint8_t> loss_mask(std::int64_t example) const = 0;
  virtual std::int16_t source(std::int64_t example) const = 0;
  // Call before tokens `begin` to `end` - 1 of an example are trained. Checks that ids are in
  // 0..vocab_size-1, that mask bytes are known, and the source. Checks the number of labels when
  // these are all tokens. Checks that the file has not been written to since it was opened, at most
  // once a second for each file.
  virtual void check_tokens(std::int64_t /*example*/, std::int64_t /*begin*/,
                            std::int64_t /*end*/) const {}
  // Reads every byte of each `num_parts`-th shard from number `part` on. Checks all that
  // check_tokens() does, and the counts and digests of store.json.
  virtual void check_all(std::size_t /*part*/, std::size_t /*num_parts*/) const {}
  // xxh3-128 (hex) of counts and lengths, independent of the division into shards. It covers the
  // table of weights and their counts when there is a table. A resumed run uses it to detect
  // changed data. The first call reads all lengths.
  virtual std::string fingerprint() const = 0;
  // Sets the fingerprint that another process computed for the same files. fingerprint() then reads
  // nothing.
  virtual void keep_fingerprint(const std::string& /*found*/) const {}
  // xxh3-128 (hex) of the shard digests in store.json, which cover every token. "" for stores of
  // older versions without digests. Reads no shard.
  virtual std::string content_digest() const { return {}; }
  virtual ExampleOrigin origin(std::int64_t example) const { return {folder(), 0, example}; }
  // The stores that were joined, ascending by first_example.
  virtual std::vector<StoreUse> uses() const {
    return {{folder(), 0, info().num_examples, info().num_examples}};
  }
  virtual const LossWeights& loss_weights() const {
    static const LossWeights all_one;
    return all_one;
  }
  // Loss weights of an example's tokens by mask byte, in addition to its loss weight. Stores that
  // were joined keep their own tables.
  virtual TokenWeights token_weights(std::int64_t /*example*/) const { return {}; }
  virtual bool has_token_weights() const { return false; }         // whether any example has them
  virtual const ExampleGroups* groups() const { return nullptr; }  // null: a plain store
  // [length] float32: the values of info().token_columns[column], mapped. check_tokens() checks
  // that they are finite. Throws Error(kInternal) for a column that the store does not have.
  virtual std::span<const float> token_column(std::int64_t example, std::size_t column) const;
};

}  // namespace packtrain
