#include "framework/data/store_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/safetensors.h"
#include "framework/data/bad_lines.h"
#include "framework/data/store_format.h"
#include "framework/data/store_shard.h"

namespace packtrain {
namespace {

namespace fs = std::filesystem;

bool belongs_to_store(const std::string& name) {
  return name == kStoreManifestName || name == kStoreTokenizerFolder || is_shard_name(name) ||
         is_scores_name(name) || name == kBadLinesName ||
         name == std::string(kStoreManifestName) + ".tmp";
}

// Makes `folder` exist and be empty. Removes only files of a store, the manifest first, so that a
// partly removed folder is not a store.
void clear_folder(const std::string& folder, bool overwrite) {
  make_folders(folder, ErrorCategory::kData);
  std::vector<fs::path> entries;
  for (const auto& entry : fs::directory_iterator(folder)) entries.push_back(entry.path());
  if (entries.empty()) return;
  if (!overwrite) {
    throw Error(ErrorCategory::kData, fmt::format("{}: exists and is not empty", folder),
                "Give another folder, or --overwrite to replace the store in it.");
  }
  for (const fs::path& entry : entries) {
    if (!belongs_to_store(entry.filename())) {
      throw Error(ErrorCategory::kData,
                  fmt::format("{}: holds '{}', which is no part of a token store", folder,
                              entry.filename().string()),
                  "Only a folder that holds nothing but a store can be overwritten.");
    }
  }
  fs::remove(fs::path(folder) / kStoreManifestName);
  for (const fs::path& entry : entries) fs::remove_all(entry);
}

// Collects examples in memory and writes a shard file whenever they reach max_shard_tokens.
class ShardedStoreWriter final : public StoreWriter {
 public:
  ShardedStoreWriter(std::string folder, const StoreInfo& info, std::int64_t max_shard_tokens)
      : folder_(std::move(folder)), manifest_{info, {}}, max_shard_tokens_(max_shard_tokens) {
    manifest_.info.num_examples = 0;
    manifest_.info.num_tokens = 0;
    manifest_.info.num_loss_tokens = 0;
  }

  void add(std::span<const std::int32_t> input_ids, std::span<const std::uint8_t> loss_mask,
           std::int16_t source) override;
  StoreInfo finish(std::int64_t num_bad_lines) override;

 private:
  void check(std::span<const std::int32_t> input_ids, std::span<const std::uint8_t> loss_mask,
             std::int16_t source) const;
  void write_shard();

  std::string folder_;
  StoreManifest manifest_;
  std::int64_t max_shard_tokens_;
  std::vector<std::int32_t> input_ids_;
  std::vector<std::uint8_t> loss_mask_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::int32_t> num_loss_tokens_;
  std::vector<std::int16_t> source_;
};

void ShardedStoreWriter::check(std::span<const std::int32_t> input_ids,
                               std::span<const std::uint8_t> loss_mask, std::int16_t source) const {
  const StoreInfo& info = manifest_.info;
  const auto fail = [&](const std::string& fault) {
    throw Error(ErrorCategory::kData,
                fmt::format("{}: example {}: {}", folder_, info.num_examples, fault));
  };
  constexpr std::size_t kMaxLength = std::numeric_limits<std::int32_t>::max();
  if (input_ids.empty() || input_ids.size() > kMaxLength) {
    fail(fmt::format("has {} tokens, wanted 1..{}", input_ids.size(), kMaxLength));
  }
  if (input_ids.size() != loss_mask.size()) {
    fail(fmt::format("has {} tokens, but a mask of {}", input_ids.size(), loss_mask.size()));
  }
  if (source < 0 || static_cast<std::size_t>(source) >= info.sources.size()) {
    fail(fmt::format("source is {}, wanted 0..{}", source, std::ssize(info.sources) - 1));
  }
  const std::size_t num_mask_bytes = std::max<std::size_t>(info.loss_weights.size(), 2);
  for (std::size_t t = 0; t < input_ids.size(); ++t) {
    if (input_ids[t] < 0 || input_ids[t] >= info.vocab_size) {
      fail(fmt::format("token {}: id {} is outside the vocabulary 0..{}", t, input_ids[t],
                       info.vocab_size - 1));
    }
    if (loss_mask[t] >= num_mask_bytes) {
      fail(fmt::format("token {}: loss_mask is {}, wanted {}", t, loss_mask[t],
                       wanted_mask_bytes(num_mask_bytes)));
    }
  }
}

void ShardedStoreWriter::add(std::span<const std::int32_t> input_ids,
                             std::span<const std::uint8_t> loss_mask, std::int16_t source) {
  check(input_ids, loss_mask, source);
  const std::int64_t num_loss_tokens = count_supervised(loss_mask.subspan(1));
  input_ids_.insert(input_ids_.end(), input_ids.begin(), input_ids.end());
  loss_mask_.insert(loss_mask_.end(), loss_mask.begin(), loss_mask.end());
  offsets_.push_back(std::ssize(input_ids_));
  num_loss_tokens_.push_back(static_cast<std::int32_t>(num_loss_tokens));
  source_.push_back(source);
  manifest_.info.num_examples += 1;
  manifest_.info.num_tokens += std::ssize(input_ids);
  manifest_.info.num_loss_tokens += num_loss_tokens;
  if (std::ssize(input_ids_) >= max_shard_tokens_) write_shard();
}

void ShardedStoreWriter::write_shard() {
  const std::int64_t num_examples = std::ssize(source_);
  const std::int64_t num_tokens = std::ssize(input_ids_);
  const std::vector<TensorToWrite> tensors{
      {"offsets", DataType::kInt64, {num_examples + 1}, std::as_bytes(std::span(offsets_))},
      {"input_ids", DataType::kInt32, {num_tokens}, std::as_bytes(std::span(input_ids_))},
      {"num_loss_tokens",
       DataType::kInt32,
       {num_examples},
       std::as_bytes(std::span(num_loss_tokens_))},
      {"source", DataType::kInt16, {num_examples}, std::as_bytes(std::span(source_))},
      {"loss_mask", DataType::kUInt8, {num_tokens}, std::as_bytes(std::span(loss_mask_))}};
  write_safetensors(folder_ + "/" + shard_name(manifest_.shards.size()), tensors, {},
                    ErrorCategory::kData);
  manifest_.shards.push_back(
      describe_shard({offsets_, input_ids_, num_loss_tokens_, source_, loss_mask_}));
  input_ids_.clear();
  loss_mask_.clear();
  offsets_.assign(1, 0);
  num_loss_tokens_.clear();
  source_.clear();
}

StoreInfo ShardedStoreWriter::finish(std::int64_t num_bad_lines) {
  if (!source_.empty()) write_shard();
  if (manifest_.shards.empty()) {
    throw Error(ErrorCategory::kData, fmt::format("{}: the sources hold no example", folder_));
  }
  manifest_.info.num_bad_lines = num_bad_lines;
  write_text_atomically(folder_ + "/" + kStoreManifestName, manifest_text(manifest_),
                        ErrorCategory::kData);
  return manifest_.info;
}

}  // namespace

std::unique_ptr<StoreWriter> StoreWriter::create(const std::string& folder, const StoreInfo& info,
                                                 bool overwrite, std::int64_t max_shard_tokens) {
  constexpr std::int64_t kMaxVocabSize = std::numeric_limits<std::int32_t>::max();
  if (info.vocab_size < 1 || info.vocab_size > kMaxVocabSize) {
    throw Error(ErrorCategory::kConfig, fmt::format("{}: vocabulary size is {}, wanted 1..{}",
                                                    folder, info.vocab_size, kMaxVocabSize));
  }
  try {
    clear_folder(folder, overwrite);
  } catch (const fs::filesystem_error& error) {
    throw Error(ErrorCategory::kData,
                fmt::format("{}: cannot clear the folder: {}", folder, error.code().message()));
  }
  return std::make_unique<ShardedStoreWriter>(folder, info, max_shard_tokens);
}

}  // namespace packtrain
