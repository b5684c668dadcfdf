#include "framework/data/store_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <system_error>
#include <utility>
#include <vector>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/safetensors.h"
#include "framework/data/bad_lines.h"
#include "framework/data/group_format.h"
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

// The columns of the shard that is being filled.
struct ShardBuffers {
  std::vector<std::int32_t> input_ids;
  std::vector<std::uint8_t> loss_mask;
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int32_t> num_loss_tokens;
  std::vector<std::int16_t> source;
  std::vector<std::int64_t> group_offsets;  // empty in a store without groups
  std::vector<std::uint8_t> group_role;
  std::vector<float> margin;
  std::vector<std::vector<float>> token_columns;

  explicit ShardBuffers(const StoreInfo& info) : token_columns(info.token_columns.size()) {
    if (info.groups) group_offsets.push_back(0);
  }

  void add(const ExampleToWrite& example, std::int64_t labels) {
    input_ids.insert(input_ids.end(), example.input_ids.begin(), example.input_ids.end());
    loss_mask.insert(loss_mask.end(), example.loss_mask.begin(), example.loss_mask.end());
    offsets.push_back(std::ssize(input_ids));
    num_loss_tokens.push_back(static_cast<std::int32_t>(labels));
    source.push_back(example.source);
    for (std::size_t c = 0; c < token_columns.size(); ++c) {
      const auto values = example.token_columns[c];
      token_columns[c].insert(token_columns[c].end(), values.begin(), values.end());
    }
  }

  ShardColumns columns() const {
    ShardColumns columns{offsets,   input_ids,     num_loss_tokens, source,
                         loss_mask, group_offsets, group_role,      margin};
    for (const auto& values : token_columns) columns.token_columns.emplace_back(values);
    return columns;
  }
};

// Collects examples in memory and writes a shard file whenever they reach max_shard_tokens.
class ShardedStoreWriter final : public StoreWriter {
 public:
  ShardedStoreWriter(std::string folder, const StoreInfo& info, std::int64_t max_shard_tokens)
      : folder_(std::move(folder)),
        manifest_{info, {}},
        max_shard_tokens_(max_shard_tokens),
        buffers_(info) {
    manifest_.info.num_examples = 0;
    manifest_.info.num_tokens = 0;
    manifest_.info.num_loss_tokens = 0;
    if (manifest_.info.groups) manifest_.info.groups->num_groups = 0;
  }

  void add(const ExampleToWrite& example) override;
  void add_group(std::span<const GroupMember> members, std::optional<float> margin) override;
  StoreInfo finish(std::int64_t num_bad_lines) override;

 private:
  [[noreturn]] void fail(const std::string& fault) const {
    throw Error(ErrorCategory::kData,
                fmt::format("{}: example {}: {}", folder_, manifest_.info.num_examples, fault));
  }
  void check(const ExampleToWrite& example) const;
  void check_columns(const ExampleToWrite& example) const;
  void check_group(std::span<const GroupMember> members, std::optional<float> margin) const;
  void append(const ExampleToWrite& example);
  void write_shard();

  std::string folder_;
  StoreManifest manifest_;
  std::int64_t max_shard_tokens_;
  ShardBuffers buffers_;
};

void ShardedStoreWriter::check(const ExampleToWrite& example) const {
  const auto [input_ids, loss_mask, source, token_columns] = example;
  const StoreInfo& info = manifest_.info;
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
  check_columns(example);
}

void ShardedStoreWriter::check_columns(const ExampleToWrite& example) const {
  const std::vector<std::string>& names = manifest_.info.token_columns;
  if (example.token_columns.size() != names.size()) {
    fail(fmt::format("has {} columns of tokens, wanted {}", example.token_columns.size(),
                     names.size()));
  }
  for (std::size_t c = 0; c < names.size(); ++c) {
    const auto values = example.token_columns[c];
    if (values.size() != example.input_ids.size()) {
      fail(fmt::format("has {} tokens, but {} values of '{}'", example.input_ids.size(),
                       values.size(), names[c]));
    }
    if (std::ranges::all_of(values, [](float value) { return std::isfinite(value); })) continue;
    fail(fmt::format("'{}' holds a value that is not finite", names[c]));
  }
}

void ShardedStoreWriter::check_group(std::span<const GroupMember> members,
                                     std::optional<float> margin) const {
  const auto& groups = manifest_.info.groups;
  if (!groups) fail("is of a group, and the store has none");
  std::vector<GroupRole> roles;
  for (const GroupMember& member : members) roles.push_back(member.role);
  if (!fault_of_roles(groups->kind, roles).empty()) {
    fail(fmt::format("its group of {} is not one of the kind '{}'", members.size(),
                     name_of(groups->kind)));
  }
  if (margin.has_value() != groups->has_margins) {
    fail(fmt::format("its group has {} margin, and the store has {}", margin ? "a" : "no",
                     groups->has_margins ? "margins" : "none"));
  }
  if (margin && !std::isfinite(*margin)) fail("the margin of its group is not finite");
}

void ShardedStoreWriter::append(const ExampleToWrite& example) {
  const std::int64_t labels = count_supervised(example.loss_mask.subspan(1));
  buffers_.add(example, labels);
  manifest_.info.num_examples += 1;
  manifest_.info.num_tokens += std::ssize(example.input_ids);
  manifest_.info.num_loss_tokens += labels;
}

void ShardedStoreWriter::add(const ExampleToWrite& example) {
  if (manifest_.info.groups) fail("is of no group, and the store has groups");
  check(example);
  append(example);
  if (std::ssize(buffers_.input_ids) >= max_shard_tokens_) write_shard();
}

void ShardedStoreWriter::add_group(std::span<const GroupMember> members,
                                   std::optional<float> margin) {
  check_group(members, margin);
  for (const GroupMember& member : members) check(member.example);
  for (const GroupMember& member : members) {
    append(member.example);
    buffers_.group_role.push_back(static_cast<std::uint8_t>(member.role));
  }
  buffers_.group_offsets.push_back(std::ssize(buffers_.group_role));
  if (margin) buffers_.margin.push_back(*margin);
  ++manifest_.info.groups->num_groups;
  if (std::ssize(buffers_.input_ids) >= max_shard_tokens_) write_shard();
}

// The tensors of a shard file.
std::vector<TensorToWrite> tensors_of(const ShardColumns& columns, const StoreInfo& info) {
  std::vector<TensorToWrite> tensors;
  const auto add = [&](std::string name, DataType dtype, const auto& values) {
    tensors.push_back({std::move(name), dtype, {std::ssize(values)}, std::as_bytes(values)});
  };
  add("offsets", DataType::kInt64, columns.offsets);
  add("input_ids", DataType::kInt32, columns.input_ids);
  add("num_loss_tokens", DataType::kInt32, columns.num_loss_tokens);
  add("source", DataType::kInt16, columns.source);
  add("loss_mask", DataType::kUInt8, columns.loss_mask);
  if (info.groups) {
    add("group_offsets", DataType::kInt64, columns.group_offsets);
    add("group_role", DataType::kUInt8, columns.group_role);
    if (info.groups->has_margins) add("margin", DataType::kFloat32, columns.margin);
  }
  for (std::size_t c = 0; c < info.token_columns.size(); ++c) {
    add(tensor_of_column(info.token_columns[c]), DataType::kFloat32, columns.token_columns[c]);
  }
  return tensors;
}

void ShardedStoreWriter::write_shard() {
  const ShardColumns columns = buffers_.columns();
  write_safetensors(folder_ + "/" + shard_name(manifest_.shards.size()),
                    tensors_of(columns, manifest_.info), {}, ErrorCategory::kData);
  manifest_.shards.push_back(describe_shard(columns));
  buffers_ = ShardBuffers(manifest_.info);
}

StoreInfo ShardedStoreWriter::finish(std::int64_t num_bad_lines) {
  if (!buffers_.source.empty()) write_shard();
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
