// Token store: tokenised examples of many lengths, memory-mapped.
// A folder: `store.json` (format version, tokenizer name and hash, vocabulary size, source names,
// counts, list of shard files) and one or more safetensors files with
//   input_ids int32 [num_tokens], offsets int64 [num_examples + 1], loss_mask uint8 [num_tokens],
//   num_loss_tokens int32 [num_examples], source int16 [num_examples].
// loss_mask[t] = 1: token t is to be predicted (from the tokens before it in its example). The
// first token of an example has no predecessor and never counts, so num_loss_tokens[e] is the
// number of bytes other than 0 in loss_mask of tokens 1..L-1 of example e.
// `loss_weights` in store.json, where it is, is a list of numbers: entry m is what a token of mask
// byte m weighs in the loss (token_weights.h). `requires` then names it.
// bad-lines.jsonl (bad_lines.h) lists what was left out of the sources, where anything was.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "framework/data/example_counts.h"
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
  std::int64_t num_bad_lines = 0;  // of the sources, that were left out; bad-lines.jsonl lists them
  std::vector<double> loss_weights;  // by mask byte; empty: bytes are 0 and 1
};

// Where an example was before stores were joined.
struct ExampleOrigin {
  std::string_view store;    // its folder
  std::int64_t repeat = 0;   // from 0
  std::int64_t example = 0;  // of that store
};

// A store that an epoch's examples are of.
struct StoreUse {
  std::string folder;
  std::int64_t first_example = 0;  // of the joined store; the next ones' follow
  std::int64_t num_examples = 0;   // of an epoch
  std::int64_t num_stored = 0;     // of the store itself
};

class TokenStore {
 public:
  // Reads store.json. A shard is mapped when its first example is used, and its header checked;
  // what is asked of an example is checked then. check_tokens() checks ids and masks, check_all()
  // everything. All throw Error(kData) naming the file, the example and the token of the fault.
  static std::unique_ptr<TokenStore> open(const std::string& folder);
  virtual ~TokenStore() = default;

  virtual const StoreInfo& info() const = 0;
  virtual const std::string& folder() const = 0;
  // [num_examples], in memory or mapped; the store must outlive them.
  virtual ExampleCounts lengths() const = 0;
  virtual ExampleCounts num_loss_tokens() const = 0;
  virtual std::span<const std::int32_t> input_ids(std::int64_t example) const = 0;
  virtual std::span<const std::uint8_t> loss_mask(std::int64_t example) const = 0;
  virtual std::int16_t source(std::int64_t example) const = 0;
  // Before tokens `begin` to `end` - 1 of an example are trained: ids in 0..vocab_size-1, mask
  // bytes known, the source, the number of labels where these are all tokens, and that the file was
  // not written to since it was opened. Asks the file system at most once a second for each file.
  virtual void check_tokens(std::int64_t /*example*/, std::int64_t /*begin*/,
                            std::int64_t /*end*/) const {}
  // Reads every byte of each `num_parts`-th shard from number `part` on: all that check_tokens()
  // looks at, and counts and digests of store.json.
  virtual void check_all(std::size_t /*part*/, std::size_t /*num_parts*/) const {}
  // xxh3-128 (hex) over counts and lengths, whatever the shards, and over the table of weights and
  // how often each is used, where there is one: tells a changed data set at resume.
  // Reads all lengths when it is first asked for.
  virtual std::string fingerprint() const = 0;
  // What another process found of the same files: fingerprint() returns it and reads nothing.
  virtual void keep_fingerprint(const std::string& /*found*/) const {}
  // xxh3-128 (hex) over the digests of the shards in store.json, which cover every token; "" where
  // it has none (stores of older versions). Nothing is read.
  virtual std::string content_digest() const { return {}; }
  virtual ExampleOrigin origin(std::int64_t example) const { return {folder(), 0, example}; }
  // Of stores that were joined one each, ascending by first_example.
  virtual std::vector<StoreUse> uses() const {
    return {{folder(), 0, info().num_examples, info().num_examples}};
  }
  virtual const LossWeights& loss_weights() const {
    static const LossWeights all_one;
    return all_one;
  }
  // What the tokens of an example weigh by its mask, beside that. Stores that were joined have
  // tables of their own.
  virtual TokenWeights token_weights(std::int64_t /*example*/) const { return {}; }
  virtual bool has_token_weights() const { return false; }  // of any example
};

}  // namespace packtrain
