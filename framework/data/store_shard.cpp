#include "framework/data/store_shard.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "framework/core/blake2b.h"
#include "framework/data/group_format.h"

namespace packtrain {
namespace {

constexpr std::int32_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

// The largest element. A plain loop over unsigned values, which compilers vectorize.
template <typename T>
T largest(std::span<const T> values) {
  T result = 0;
  for (const T value : values) result = std::max(result, value);
  return result;
}

std::span<const std::uint32_t> as_unsigned(std::span<const std::int32_t> values) {
  return {reinterpret_cast<const std::uint32_t*>(values.data()), values.size()};
}

std::vector<std::int64_t> counts_of_bytes(std::span<const std::uint8_t> mask) {
  std::array<std::int64_t, kMaxTokenWeights> counts{};
  for (const std::uint8_t byte : mask) ++counts[byte];
  std::size_t size = counts.size();
  while (size > 0 && counts[size - 1] == 0) --size;
  return {counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(size)};
}

std::string digest_of(const ShardColumns& columns) {
  Blake2b hasher;
  hasher.update(std::as_bytes(columns.offsets));
  hasher.update(std::as_bytes(columns.input_ids));
  hasher.update(std::as_bytes(columns.num_loss_tokens));
  hasher.update(std::as_bytes(columns.source));
  hasher.update(std::as_bytes(columns.loss_mask));
  hasher.update(std::as_bytes(columns.group_offsets));
  hasher.update(std::as_bytes(columns.group_role));
  hasher.update(std::as_bytes(columns.margin));
  for (const std::span<const float> values : columns.token_columns) {
    hasher.update(std::as_bytes(values));
  }
  return hasher.hex();
}

}  // namespace

StoreShard describe_shard(const ShardColumns& columns) {
  StoreShard shard;
  shard.num_examples = std::ssize(columns.source);
  shard.num_tokens = std::ssize(columns.input_ids);
  CountBounds lengths{kMaxTokens, 0};
  for (std::size_t e = 0; e + 1 < columns.offsets.size(); ++e) {
    const auto length = static_cast<std::int32_t>(columns.offsets[e + 1] - columns.offsets[e]);
    lengths = {std::min(lengths.least, length), std::max(lengths.most, length)};
  }
  const auto [least, most] = std::ranges::minmax(columns.num_loss_tokens);
  shard.lengths = lengths;
  shard.labels = CountBounds{least, most};
  shard.mask_bytes = counts_of_bytes(columns.loss_mask);
  shard.digest = digest_of(columns);
  if (!columns.group_offsets.empty()) shard.num_groups = std::ssize(columns.group_offsets) - 1;
  return shard;
}

MappedShard::MappedShard(const std::string& path, const StoreShard& shard, const StoreInfo& info,
                         std::int64_t first_example)
    : file_(SafetensorsFile::open(path, ErrorCategory::kData)),
      shard_(shard),
      info_(info),
      first_example_(first_example),
      columns_(map_columns()),
      lengths_(shard.lengths.value_or(CountBounds{1, kMaxTokens})),
      labels_(shard.labels.value_or(CountBounds{0, kMaxTokens})) {
  check_ends();
}

// Reports that the file was written to, when it was, instead of the fault.
void MappedShard::fail(const std::string& fault) const {
  file_->check_unchanged();
  throw Error(ErrorCategory::kData, fmt::format("{}: {}", file_->path(), fault),
              "Make the store again with `packtrain prepare`, or copy it again; `packtrain verify "
              "--data STORE` reads every byte of a store.");
}

template <typename T>
std::span<const T> MappedShard::column(const char* name, DataType dtype, std::int64_t size) const {
  const TensorView& tensor = file_->tensor(name);
  if (tensor.dtype != dtype || tensor.shape != std::vector<std::int64_t>{size}) {
    fail(fmt::format("tensor '{}' has {} elements or another type, wanted {} of {} bytes", name,
                     tensor.numel(), size, sizeof(T)));
  }
  if (reinterpret_cast<std::uintptr_t>(tensor.data.data()) % alignof(T) != 0) {
    fail(fmt::format("tensor '{}' does not begin at a multiple of {} bytes", name, alignof(T)));
  }
  return {reinterpret_cast<const T*>(tensor.data.data()), static_cast<std::size_t>(size)};
}

ShardColumns MappedShard::map_columns() const {
  ShardColumns columns{
      column<std::int64_t>("offsets", DataType::kInt64, shard_.num_examples + 1),
      column<std::int32_t>("input_ids", DataType::kInt32, shard_.num_tokens),
      column<std::int32_t>("num_loss_tokens", DataType::kInt32, shard_.num_examples),
      column<std::int16_t>("source", DataType::kInt16, shard_.num_examples),
      column<std::uint8_t>("loss_mask", DataType::kUInt8, shard_.num_tokens)};
  for (const std::string& name : info_.token_columns) {
    columns.token_columns.push_back(
        column<float>(tensor_of_column(name).c_str(), DataType::kFloat32, shard_.num_tokens));
  }
  if (!info_.groups) return columns;
  columns.group_offsets =
      column<std::int64_t>("group_offsets", DataType::kInt64, shard_.num_groups + 1);
  columns.group_role = column<std::uint8_t>("group_role", DataType::kUInt8, shard_.num_examples);
  if (info_.groups->has_margins) {
    columns.margin = column<float>("margin", DataType::kFloat32, shard_.num_groups);
  }
  return columns;
}

void MappedShard::check_ends() const {
  const auto offsets = columns_.offsets;
  const auto groups = columns_.group_offsets;
  if (!groups.empty() && (groups.front() != 0 || groups.back() != shard_.num_examples)) {
    fail(fmt::format("group_offsets begin with {} and end with {}, wanted 0 and num_examples = {}",
                     groups.front(), groups.back(), shard_.num_examples));
  }
  if (offsets.front() != 0) fail(fmt::format("offsets[0] is {}, wanted 0", offsets.front()));
  if (offsets.back() != shard_.num_tokens) {
    fail(fmt::format("the last offset is {}, wanted num_tokens = {}", offsets.back(),
                     shard_.num_tokens));
  }
}

void MappedShard::copy_lengths(std::int64_t first, std::span<std::int32_t> lengths) const {
  const auto offsets = columns_.offsets.subspan(static_cast<std::size_t>(first));
  const auto num_tokens = static_cast<std::uint64_t>(shard_.num_tokens);
  const auto least = static_cast<std::uint64_t>(std::max(lengths_.least, 1));
  const auto most = static_cast<std::uint64_t>(lengths_.most);
  bool is_wrong = false;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    // As unsigned numbers, negative values exceed every bound.
    const auto begin = static_cast<std::uint64_t>(offsets[i]);
    const auto end = static_cast<std::uint64_t>(offsets[i + 1]);
    const std::uint64_t length = end - begin;
    const bool is_inside = (begin <= num_tokens) & (end <= num_tokens);
    is_wrong |= !is_inside | (length - least > most - least);
    lengths[i] = static_cast<std::int32_t>(length);
  }
  if (!is_wrong) return;
  for (std::int64_t local = first; local < first + std::ssize(lengths); ++local) length(local);
}

void MappedShard::fail_offsets(std::int64_t local) const {
  const bool is_known = shard_.lengths.has_value();
  fail(fmt::format("example {} has offsets {} and {}, wanted {} to {} tokens",
                   first_example_ + local, columns_.offsets[local], columns_.offsets[local + 1],
                   lengths_.least, is_known ? fmt::format("{}", lengths_.most) : "2^31-1"));
}

void MappedShard::fail_labels(std::int64_t local) const {
  fail(fmt::format("example {}: num_loss_tokens is {}, wanted {}..{}", first_example_ + local,
                   columns_.num_loss_tokens[local], labels_.least, labels_.most));
}

std::int16_t MappedShard::source(std::int64_t local) const {
  const std::int16_t source = columns_.source[local];
  if (source < 0 || static_cast<std::size_t>(source) >= info_.sources.size()) {
    fail(fmt::format("example {}: source is {}, wanted 0..{}", first_example_ + local, source,
                     info_.sources.size() - 1));
  }
  return source;
}

ExampleGroup MappedShard::group(std::int64_t local) const {
  const std::string fault = fault_of_group(columns_, *info_.groups, local, first_example_);
  if (!fault.empty()) fail(fault);
  const std::int64_t begin = columns_.group_offsets[local];
  ExampleGroup group{first_example_ + begin, columns_.group_offsets[local + 1] - begin};
  if (!columns_.margin.empty()) group.margin = columns_.margin[local];
  return group;
}

std::int64_t MappedShard::group_of(std::int64_t local_example) const {
  const auto begins = columns_.group_offsets.first(columns_.group_offsets.size() - 1);
  const auto after = std::ranges::upper_bound(begins, local_example);
  const std::int64_t local = std::max<std::int64_t>(after - begins.begin(), 1) - 1;
  const ExampleGroup found = group(local);
  const std::int64_t place = first_example_ + local_example - found.first_example;
  if (place < 0 || place >= found.num_examples) {
    fail(fmt::format("example {} is in no group: group_offsets do not ascend",
                     first_example_ + local_example));
  }
  return local;
}

GroupRole MappedShard::role(std::int64_t local_example) const {
  group_of(local_example);  // checks the role
  return static_cast<GroupRole>(columns_.group_role[local_example]);
}

void MappedShard::check_token_columns(std::int64_t local, std::int64_t begin,
                                      std::int64_t end) const {
  for (std::size_t column = 0; column < columns_.token_columns.size(); ++column) {
    const auto values = token_column(local, column).subspan(begin, end - begin);
    const auto wrong = std::ranges::find_if(values, [](float v) { return !std::isfinite(v); });
    if (wrong == values.end()) continue;
    fail(fmt::format("example {}, token {}: '{}' is {}, wanted a finite number",
                     first_example_ + local, begin + (wrong - values.begin()),
                     info_.token_columns[column], *wrong));
  }
}

void MappedShard::check_ids(std::int64_t local, std::int64_t begin, std::int64_t end) const {
  const auto bound = static_cast<std::uint32_t>(info_.vocab_size);
  const auto part = input_ids(local).subspan(begin, end - begin);
  const auto ids = as_unsigned(part);  // as unsigned numbers, negative ids exceed every vocabulary
  if (largest(ids) < bound) return;
  const auto wrong = std::ranges::find_if(ids, [=](std::uint32_t id) { return id >= bound; });
  const std::int64_t token = wrong - ids.begin();
  fail(fmt::format("example {}, token {}: id {} is outside the vocabulary 0..{}",
                   first_example_ + local, begin + token, part[token], info_.vocab_size - 1));
}

void MappedShard::check_mask(std::int64_t local, std::int64_t begin, std::int64_t end) const {
  const std::size_t num_bytes = std::max<std::size_t>(info_.loss_weights.size(), 2);
  const auto mask = loss_mask(local);
  const auto part = mask.subspan(begin, end - begin);
  if (largest(part) >= num_bytes) {
    const auto wrong = std::ranges::find_if(part, [=](auto byte) { return byte >= num_bytes; });
    fail(fmt::format("example {}, token {}: loss_mask is {}, wanted {}", first_example_ + local,
                     begin + (wrong - part.begin()), *wrong, wanted_mask_bytes(num_bytes)));
  }
  if (part.size() < mask.size()) return;
  const std::int64_t labels = count_supervised(mask.subspan(1));
  if (labels == num_loss_tokens(local)) return;
  fail(fmt::format("example {}: num_loss_tokens is {}, but its mask has {}", first_example_ + local,
                   columns_.num_loss_tokens[local], labels));
}

void MappedShard::check_tokens(std::int64_t local, std::int64_t begin, std::int64_t end) const {
  end = std::min<std::int64_t>(end, length(local));
  begin = std::clamp<std::int64_t>(begin, 0, end);
  check_ids(local, begin, end);
  check_mask(local, begin, end);
  check_token_columns(local, begin, end);
  source(local);
  if (info_.groups) group_of(local);
}

void MappedShard::check_all() const {
  for (std::int64_t local = 0; local < num_examples(); ++local) {
    check_tokens(local, 0, length(local));
  }
  const StoreShard found = describe_shard(columns_);
  const auto compare = [&](const char* what, const auto& said, const auto& is) {
    if (said && *said != is)
      fail(fmt::format("its {} are not those of {}", what, kStoreManifestName));
  };
  compare("least and most tokens", shard_.lengths, *found.lengths);
  compare("least and most labels", shard_.labels, *found.labels);
  if (!shard_.mask_bytes.empty() && shard_.mask_bytes != found.mask_bytes) {
    fail(fmt::format("its counts of mask bytes are not those of {}", kStoreManifestName));
  }
  if (!shard_.digest.empty() && shard_.digest != found.digest) {
    fail(fmt::format("its digest is {}, wanted {}: tokens or masks are others than were written",
                     found.digest, shard_.digest));
  }
}

std::vector<std::int64_t> MappedShard::mask_byte_counts() const {
  return counts_of_bytes(columns_.loss_mask);
}

}  // namespace packtrain
