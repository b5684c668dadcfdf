#include "framework/data/store_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/requirements.h"
#include "framework/data/group_format.h"
#include "framework/data/manifest_reader.h"

namespace packtrain {
namespace {

using Json = ManifestReader::Json;

constexpr std::string_view kShardPrefix = "part-";
constexpr std::string_view kScoresPrefix = "log-probs-";
constexpr std::string_view kShardSuffix = ".safetensors";
constexpr std::int64_t kMaxVocabSize = std::numeric_limits<std::int32_t>::max();
constexpr std::array<std::string_view, 3> kKnownRequirements{kLossWeightsKey, kGroupsKey,
                                                             kTokenColumnsKey};

// Optional keys of a shard.
constexpr const char* kLengthsKey = "lengths";
constexpr const char* kLabelsKey = "labels";
constexpr const char* kMaskBytesKey = "mask_bytes";
constexpr const char* kDigestKey = "digest";
constexpr const char* kNumGroupsKey = "num_groups";  // of stores with groups
constexpr std::size_t kDigestDigits = 32;

std::vector<std::string> read_requirements(const ManifestReader& reader, const Json& json) {
  std::vector<std::string> names;
  try {
    names = requirements_of(json);
  } catch (const JsonFault& fault) {
    reader.fail(fault.what());
  }
  const auto unknown = unknown_requirement(names, kKnownRequirements);
  if (unknown) reader.fail(*unknown, kUseANewerVersion);
  return names;
}

void check_weight(const ManifestReader& reader, std::size_t byte, double weight) {
  if (byte < 2 ? weight == static_cast<double>(byte) : weight > 0 && weight <= 1) return;
  reader.fail(fmt::format("'{}' holds {} for mask byte {}, wanted {}", kLossWeightsKey, weight,
                          byte, byte < 2 ? fmt::format("{}", byte) : "more than 0 and at most 1"));
}

std::vector<double> read_loss_weights(const ManifestReader& reader, const Json& json,
                                      const std::vector<std::string>& requirements) {
  check_requirement(reader, json, kLossWeightsKey, requirements);
  std::vector<double> weights;
  if (!json.contains(kLossWeightsKey)) return weights;
  for (const Json& weight : reader.value(json, kLossWeightsKey, Json::value_t::array)) {
    if (!weight.is_number()) {
      reader.fail(fmt::format("'{}' holds something that is no number", kLossWeightsKey));
    }
    check_weight(reader, weights.size(), weight.get<double>());
    weights.push_back(weight.get<double>());
  }
  if (weights.size() < 2 || weights.size() > kMaxTokenWeights) {
    reader.fail(fmt::format("'{}' holds {} numbers, wanted 2..{}", kLossWeightsKey, weights.size(),
                            kMaxTokenWeights));
  }
  return weights;
}

std::optional<CountBounds> read_bounds(const ManifestReader& reader, const Json& shard,
                                       const char* key, std::int32_t least) {
  if (!shard.contains(key)) return {};
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  const Json& pair = reader.value(shard, key, Json::value_t::array);
  const bool are_counts =
      pair.size() == 2 && pair[0].is_number_unsigned() && pair[1].is_number_unsigned();
  if (are_counts && pair[0] >= least && pair[0] <= pair[1] && pair[1] <= kMost) {
    return CountBounds{pair[0].get<std::int32_t>(), pair[1].get<std::int32_t>()};
  }
  reader.fail(fmt::format("'{}' of a shard is {}, wanted two counts from {} on, the least first",
                          key, pair.dump().substr(0, 80), least));
}

std::vector<std::int64_t> read_mask_bytes(const ManifestReader& reader, const Json& entry,
                                          std::int64_t num_tokens) {
  std::vector<std::int64_t> counts;
  if (!entry.contains(kMaskBytesKey)) return counts;
  std::int64_t left = num_tokens;
  for (const Json& count : reader.value(entry, kMaskBytesKey, Json::value_t::array)) {
    if (!count.is_number_unsigned() || count > left) break;
    counts.push_back(count.get<std::int64_t>());
    left -= counts.back();
  }
  if (left == 0 && counts.size() == entry[kMaskBytesKey].size() &&
      counts.size() <= kMaxTokenWeights) {
    return counts;
  }
  reader.fail(fmt::format("'{}' of a shard is {}, wanted counts that add up to its {} tokens",
                          kMaskBytesKey, entry[kMaskBytesKey].dump().substr(0, 80), num_tokens));
}

std::string read_digest(const ManifestReader& reader, const Json& entry) {
  if (!entry.contains(kDigestKey)) return {};
  std::string digest = reader.text(entry, kDigestKey);
  const bool is_hex = digest.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hex || digest.size() != kDigestDigits) {
    reader.fail(fmt::format("'{}' of a shard is '{}', wanted {} hexadecimal digits", kDigestKey,
                            digest.substr(0, 80), kDigestDigits));
  }
  return digest;
}

StoreShard read_shard(const ManifestReader& reader, const Json& entry, const StoreInfo& info) {
  StoreShard shard;
  shard.num_examples = reader.count(entry, "num_examples", 1);
  shard.num_tokens = reader.count(entry, "num_tokens", 1);
  shard.lengths = read_bounds(reader, entry, kLengthsKey, 1);
  shard.labels = read_bounds(reader, entry, kLabelsKey, 0);
  shard.mask_bytes = read_mask_bytes(reader, entry, shard.num_tokens);
  shard.digest = read_digest(reader, entry);
  if (info.groups) shard.num_groups = reader.count(entry, kNumGroupsKey, 1);
  return shard;
}

StoreInfo read_info(const ManifestReader& reader, const Json& json) {
  StoreInfo info;
  if (const auto got = reader.count(json, "format_version", 0); got != kStoreFormatVersion) {
    reader.fail(fmt::format("has format version {}, wanted {}", got, kStoreFormatVersion));
  }
  const std::vector<std::string> requirements = read_requirements(reader, json);
  info.loss_weights = read_loss_weights(reader, json, requirements);
  info.groups = read_groups(reader, json, requirements);
  info.token_columns = read_token_columns(reader, json, requirements);
  info.tokenizer = reader.text(json, "tokenizer");
  if (!info.tokenizer.empty() && info.tokenizer != kStoreTokenizerFolder) {
    reader.fail(fmt::format("'tokenizer' is '{}', wanted '{}' or nothing", info.tokenizer,
                            kStoreTokenizerFolder));
  }
  info.tokenizer_name = reader.text(json, "tokenizer_name");
  info.tokenizer_hash = reader.text(json, "tokenizer_hash");
  info.vocab_size = reader.count(json, "vocab_size", 1);
  if (info.vocab_size > kMaxVocabSize) {
    reader.fail(
        fmt::format("'vocab_size' is {}, wanted at most {}", info.vocab_size, kMaxVocabSize));
  }
  for (const Json& source : reader.value(json, "sources", Json::value_t::array)) {
    if (!source.is_string()) reader.fail("'sources' holds something that is no text");
    info.sources.push_back(source.get<std::string>());
  }
  if (info.sources.empty() || info.sources.size() > kMaxSources) {
    reader.fail(fmt::format("has {} sources, wanted 1..{}", info.sources.size(), kMaxSources));
  }
  info.num_examples = reader.count(json, "num_examples", 1);
  info.num_tokens = reader.count(json, "num_tokens", 1);
  info.num_loss_tokens = reader.count(json, "num_loss_tokens", 0);
  if (json.contains("num_bad_lines")) info.num_bad_lines = reader.count(json, "num_bad_lines", 0);
  return info;
}

}  // namespace

std::string shard_name(std::size_t index) {
  return fmt::format("{}{:05}{}", kShardPrefix, index, kShardSuffix);
}

bool is_shard_name(const std::string& name) {
  if (!name.starts_with(kShardPrefix) || !name.ends_with(kShardSuffix)) return false;
  const std::size_t num_digits = name.size() - kShardPrefix.size() - kShardSuffix.size();
  const auto digits = std::string_view(name).substr(kShardPrefix.size(), num_digits);
  return num_digits >= 5 &&
         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string scores_name(const std::string& model_digest) {
  return fmt::format("{}{}{}", kScoresPrefix, model_digest, kShardSuffix);
}

bool is_scores_name(const std::string& name) {
  const std::size_t at = name.find(kShardSuffix);
  if (!name.starts_with(kScoresPrefix) || at == std::string::npos) return false;
  const std::string_view rest = std::string_view(name).substr(at + kShardSuffix.size());
  return rest.empty() || rest == ".tmp" || rest.starts_with(".part-");
}

std::string wanted_mask_bytes(std::size_t num_weights) {
  return num_weights <= 2 ? "0 or 1" : fmt::format("0..{}", num_weights - 1);
}

namespace {

Json shard_json(const StoreShard& shard, const std::string& file) {
  Json json = {
      {"file", file}, {"num_examples", shard.num_examples}, {"num_tokens", shard.num_tokens}};
  const auto add = [&](const char* key, const std::optional<CountBounds>& bounds) {
    if (bounds) json[key] = Json::array({bounds->least, bounds->most});
  };
  add(kLengthsKey, shard.lengths);
  add(kLabelsKey, shard.labels);
  if (!shard.mask_bytes.empty()) json[kMaskBytesKey] = shard.mask_bytes;
  if (!shard.digest.empty()) json[kDigestKey] = shard.digest;
  if (shard.num_groups > 0) json[kNumGroupsKey] = shard.num_groups;
  return json;
}

void add_required_members(const StoreInfo& info, Json& json) {
  const auto add = [&](const char* key, const Json& value) {
    json[kRequirementsKey].push_back(key);
    json[key] = value;
  };
  if (!info.loss_weights.empty()) add(kLossWeightsKey, info.loss_weights);
  if (info.groups) add(kGroupsKey, groups_json(*info.groups));
  if (!info.token_columns.empty()) add(kTokenColumnsKey, info.token_columns);
}

// Sums of counts of the shards. Throws Error(kData) when one overflows.
struct ShardSums {
  std::int64_t num_examples = 0;
  std::int64_t num_tokens = 0;
  std::int64_t num_groups = 0;

  void add(const ManifestReader& reader, const StoreShard& shard) {
    if (__builtin_add_overflow(num_examples, shard.num_examples, &num_examples) ||
        __builtin_add_overflow(num_tokens, shard.num_tokens, &num_tokens) ||
        __builtin_add_overflow(num_groups, shard.num_groups, &num_groups)) {
      reader.fail("the counts of its shards overflow");
    }
  }

  void check(const ManifestReader& reader, const StoreInfo& info) const {
    if (num_examples != info.num_examples || num_tokens != info.num_tokens) {
      reader.fail(fmt::format("its shards have {} examples and {} tokens, wanted {} and {}",
                              num_examples, num_tokens, info.num_examples, info.num_tokens));
    }
    if (info.groups && num_groups != info.groups->num_groups) {
      reader.fail(
          fmt::format("its shards have {} groups, wanted {}", num_groups, info.groups->num_groups));
    }
  }
};

}  // namespace

std::string manifest_text(const StoreManifest& manifest) {
  const StoreInfo& info = manifest.info;
  Json shards = Json::array();
  for (std::size_t i = 0; i < manifest.shards.size(); ++i) {
    shards.push_back(shard_json(manifest.shards[i], shard_name(i)));
  }
  Json json = {{"format_version", kStoreFormatVersion},
               {"tokenizer", info.tokenizer},
               {"tokenizer_name", info.tokenizer_name},
               {"tokenizer_hash", info.tokenizer_hash},
               {"vocab_size", info.vocab_size},
               {"sources", info.sources},
               {"num_examples", info.num_examples},
               {"num_tokens", info.num_tokens},
               {"num_loss_tokens", info.num_loss_tokens},
               {"num_bad_lines", info.num_bad_lines},
               {"shards", shards}};
  add_required_members(info, json);
  // A file name can contain any bytes. Invalid UTF-8 is replaced, not rejected.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

StoreManifest read_store_manifest(const std::string& folder) {
  const std::string path = folder + "/" + kStoreManifestName;
  if (!std::filesystem::exists(path)) {
    const char* const what = std::filesystem::exists(folder)
                                 ? ": is no token store: it has no store.json"
                                 : ": there is no such token store, folder or file";
    throw Error(ErrorCategory::kData, folder + what,
                std::filesystem::exists(folder + "/" + kUnfinishedName)
                    ? "`packtrain prepare` was stopped: the same command again finishes it."
                    : "Give a folder that `packtrain prepare` finished.");
  }
  const ManifestReader reader(path);
  const Json json = reader.parse(read_text(path, ErrorCategory::kData, kMaxJsonBytes));
  StoreManifest manifest{read_info(reader, json), {}};
  ShardSums sums;
  for (const Json& entry : reader.value(json, "shards", Json::value_t::array)) {
    if (!entry.is_object()) reader.fail("'shards' holds something that is no object");
    const std::string wanted = shard_name(manifest.shards.size());
    if (reader.text(entry, "file") != wanted) {
      reader.fail(
          fmt::format("shard file is '{}', wanted '{}'", reader.text(entry, "file"), wanted));
    }
    const StoreShard shard = read_shard(reader, entry, manifest.info);
    sums.add(reader, shard);
    manifest.shards.push_back(shard);
  }
  if (manifest.shards.empty()) reader.fail("has no shards");
  sums.check(reader, manifest.info);
  return manifest;
}

}  // namespace packtrain
