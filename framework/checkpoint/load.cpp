#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <utility>

#include "framework/checkpoint/checkpoint.h"
#include "framework/checkpoint/shard_reader.h"
#include "framework/checkpoint/tensor_bytes.h"
#include "framework/support/error.h"
#include "framework/support/hash.h"
#include "framework/support/logging.h"

namespace packtrain {
namespace {

constexpr bool kVerifyDigests = true;
constexpr const char* kAdvice = "The checkpoint is damaged; use an older one.";

[[noreturn]] void fail(const std::string& where, const std::string& fault,
                       const std::string& advice = kAdvice) {
  throw Error(ErrorCategory::kCheckpoint, fmt::format("{}: {}", where, fault), advice);
}

// A tensor of a rank file is named "kind/parameter@begin".
struct TensorName {
  std::string key;  // "kind/parameter"
  std::string parameter;
  std::int64_t begin = 0;
};

std::optional<TensorName> parse_tensor_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  const std::size_t at = name.rfind('@');
  if (slash == std::string::npos || at == std::string::npos || at < slash) return std::nullopt;
  TensorName result{name.substr(0, at), name.substr(slash + 1, at - slash - 1), 0};
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + at + 1, end, result.begin);
  if (error != std::errc{} || stop != end || result.begin < 0) return std::nullopt;
  return result;
}

std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;  // checked by parse_manifest
  return numel;
}

}  // namespace

ShardReader::ShardReader(std::string folder)
    : folder_(std::move(folder)), manifest_(read_checkpoint_manifest(folder_)) {
  verified_.resize(manifest_.files.size(), !kVerifyDigests);
  for (std::size_t file = 0; file < manifest_.files.size(); ++file) add_file(file);
  for (auto& [key, ranges] : ranges_) {
    std::sort(ranges.begin(), ranges.end(),
              [](const Range& a, const Range& b) { return a.begin < b.begin; });
  }
}

std::string ShardReader::path_of(std::size_t file) const {
  return folder_ + "/" + manifest_.files[file].name;
}

void ShardReader::add_file(std::size_t index) {
  files_.push_back(SafetensorsFile::open(path_of(index), ErrorCategory::kCheckpoint));
  for (const auto& [name, tensor] : files_.back()->tensors()) add_range(name, tensor, index);
}

void ShardReader::add_range(const std::string& tensor_name, const TensorView& tensor,
                            std::size_t file) {
  const auto name = parse_tensor_name(tensor_name);
  const bool is_known = name && manifest_.parameters.contains(name->parameter);
  if (!is_known) {
    verify(file);
    fail(path_of(file), fmt::format("has the tensor '{}' of no parameter", tensor_name));
  }
  const std::int64_t full = numel_of(shape(name->parameter));
  if (tensor.shape.size() != 1 || name->begin > full || tensor.shape[0] > full - name->begin) {
    fail(path_of(file), fmt::format("'{}' of shape [{}] does not lie in a parameter of {} elements",
                                    tensor_name, fmt::join(tensor.shape, ", "), full));
  }
  ranges_[name->key].push_back({name->begin, name->begin + tensor.shape[0], file, &tensor});
}

const std::vector<std::int64_t>& ShardReader::shape(const std::string& parameter) const {
  const auto found = manifest_.parameters.find(parameter);
  if (found == manifest_.parameters.end()) {
    fail(folder_, fmt::format("has no parameter '{}'", parameter),
         "It was saved from another model; compare the model section with the saved one.");
  }
  return found->second;
}

const std::vector<ShardReader::Range>& ShardReader::ranges(const std::string& kind,
                                                           const std::string& parameter) {
  const auto found = ranges_.find(kind + "/" + parameter);
  if (found == ranges_.end()) {
    verify_all();
    fail(folder_, fmt::format("has no {} of parameter '{}'", kind, parameter),
         kind == "weight" ? kAdvice
                          : "The parameter was frozen when this was saved: keep it frozen, or "
                            "export the model and start a new run from it.");
  }
  return found->second;
}

DataType ShardReader::dtype(const std::string& kind, const std::string& parameter) {
  return ranges(kind, parameter).front().tensor->dtype;
}

void ShardReader::verify(std::size_t file) {
  if (verified_[file]) return;
  const std::string path = path_of(file);
  const std::string digest = hash_file(path, ErrorCategory::kCheckpoint);
  if (digest != manifest_.files[file].digest) {
    fail(path, fmt::format("has the digest {}, want {}", digest, manifest_.files[file].digest));
  }
  verified_[file] = true;
}

void ShardReader::verify_all() {
  for (std::size_t file = 0; file < files_.size(); ++file) verify(file);
}

void ShardReader::read(const std::string& kind, const std::string& parameter, std::int64_t begin,
                       const at::Tensor& destination) {
  const std::int64_t end = begin + destination.numel();
  std::int64_t cursor = begin;
  for (const Range& range : ranges(kind, parameter)) {
    if (range.end <= cursor) continue;
    if (range.begin > cursor || cursor == end) break;
    verify(range.file);
    const std::int64_t stop = std::min(end, range.end);
    const std::size_t width = size_of(range.tensor->dtype);
    const auto bytes =
        range.tensor->data.subspan(static_cast<std::size_t>(cursor - range.begin) * width,
                                   static_cast<std::size_t>(stop - cursor) * width);
    copy_elements(bytes, range.tensor->dtype, destination.narrow(0, cursor - begin, stop - cursor));
    cursor = stop;
  }
  if (cursor != end) {
    verify_all();
    fail(folder_, fmt::format("element {} of {} of '{}' is in no file", cursor, kind, parameter));
  }
}

namespace {

const char* name_of_moments(DataType type) {
  return type == DataType::kBFloat16 ? "bf16" : "fp32";
}

void log_converted_moments(ShardReader& reader, const ShardView& shard, const std::string& folder) {
  const DataType saved = reader.dtype("exp_avg", shard.parameter);
  const DataType wanted = data_type_of(shard.exp_avg);
  if (saved == wanted) return;
  log_info("{}: moments are converted from {} to {}, as optimizer.moments says", folder,
           name_of_moments(saved), name_of_moments(wanted));
}

}  // namespace

void load_checkpoint(const std::string& folder, std::span<const ShardView> shards,
                     bool with_moments) {
  ShardReader reader(folder);
  bool logged = false;  // all moments have one type
  for (const ShardView& shard : shards) {
    if (const auto& saved = reader.shape(shard.parameter); saved != shard.shape) {
      fail(folder,
           fmt::format("parameter '{}' has shape [{}], want [{}]", shard.parameter,
                       fmt::join(saved, ", "), fmt::join(shard.shape, ", ")),
           "It was saved from another model; compare the model section with the saved one.");
    }
    if (shard.numel == 0) continue;
    reader.read("weight", shard.parameter, shard.begin, shard.weight);
    if (!with_moments || !shard.trainable) continue;
    if (!std::exchange(logged, true)) log_converted_moments(reader, shard, folder);
    reader.read("exp_avg", shard.parameter, shard.begin, shard.exp_avg);
    reader.read("exp_avg_sq", shard.parameter, shard.begin, shard.exp_avg_sq);
  }
}

}  // namespace packtrain
