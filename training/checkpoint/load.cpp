#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "framework/core/error.h"
#include "framework/core/logging.h"
#include "training/checkpoint/checkpoint.h"
#include "training/checkpoint/checkpoint_error.h"
#include "training/checkpoint/encoded_weights.h"
#include "training/checkpoint/shard_reader.h"
#include "training/checkpoint/tensor_bytes.h"

namespace packtrain {
namespace {

constexpr std::ptrdiff_t kMaxOpenFiles = 128;
constexpr const char* kOtherModel =
    "It was saved from another model; compare the model section with the saved one.";
constexpr const char* kHadOtherState =
    "When this was saved the parameter was frozen, or optimizer.name, optimizer.moments or its "
    "group were others: restore them, or export the model and start a new run from it.";

// Reports any fault of a file as damage of the checkpoint.
template <typename Work>
auto of_a_file(Work&& work) -> decltype(work()) {
  try {
    return work();
  } catch (const DamagedCheckpoint&) {
    throw;
  } catch (const Error& error) {
    if (error.category() != ErrorCategory::kCheckpoint) throw;
    throw DamagedCheckpoint(error.message());
  }
}

// A tensor of a rank file is named "kind/parameter@begin".
struct TensorName {
  std::string parameter;
  std::int64_t begin = 0;
};

std::optional<TensorName> parse_tensor_name(const std::string& name) {
  const std::size_t slash = name.find('/');
  const std::size_t at = name.rfind('@');
  if (slash == std::string::npos || at == std::string::npos || at < slash) return std::nullopt;
  TensorName result{name.substr(slash + 1, at - slash - 1), 0};
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + at + 1, end, result.begin);
  if (error != std::errc{} || stop != end || result.begin < 0) return std::nullopt;
  return result;
}

std::string tensor_name(const std::string& kind, const std::string& parameter, std::int64_t begin) {
  return fmt::format("{}/{}@{}", kind, parameter, begin);
}

// Of consecutive elements from the beginning of a block on.
std::int64_t values_of_blocks(std::int64_t numel, std::int64_t block) {
  return (numel + block - 1) / block;
}

std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
  std::int64_t numel = 1;
  for (const std::int64_t size : shape) numel *= size;  // checked by parse_manifest
  return numel;
}

}  // namespace

ShardReader::ShardReader(std::string folder)
    : folder_(std::move(folder)), manifest_(read_checkpoint_manifest(folder_)), ranges_(manifest_) {
  ++counts_.num_opens;  // of the manifest
  for (std::size_t index = 0; index < manifest_.files.size(); ++index) {
    if (manifest_.files[index].ranges.empty()) add_ranges(index);
  }
}

std::string ShardReader::path_of(std::size_t file) const {
  return folder_ + "/" + manifest_.files[file].name;
}

ShardFile& ShardReader::file(std::size_t index) {
  std::unique_ptr<ShardFile>& file = files_[index];
  if (file != nullptr && file->is_open()) return *file;
  const auto is_open = [](const auto& item) { return item.second && item.second->is_open(); };
  if (std::ranges::count_if(files_, is_open) >= kMaxOpenFiles) {
    for (const auto& [other, open] : files_) {
      if (open) open->close();
    }
  }
  if (file == nullptr) {
    of_a_file([&] {
      file = std::make_unique<ShardFile>(path_of(index), manifest_.files[index], counts_);
    });
  }
  return *file;
}

void ShardReader::add_ranges(std::size_t index) {
  for (const auto& [tensor, entry] : file(index).tensors()) {
    const auto name = parse_tensor_name(tensor);
    if (!name || !manifest_.parameters.contains(name->parameter)) {
      of_a_file([&] { file(index).verify_whole(); });
      throw DamagedCheckpoint(
          fmt::format("{}: has the tensor '{}' of no parameter", path_of(index), tensor));
    }
    const std::int64_t full = numel_of(shape(name->parameter));
    if (entry.shape.size() != 1 || name->begin > full || entry.shape[0] > full - name->begin) {
      throw DamagedCheckpoint(
          fmt::format("{}: '{}' of shape [{}] does not lie in a parameter of {} elements",
                      path_of(index), tensor, fmt::join(entry.shape, ", "), full));
    }
    ranges_.add(name->parameter, name->begin, name->begin + entry.shape[0], index);
  }
}

const std::vector<std::int64_t>& ShardReader::shape(const std::string& parameter) const {
  const auto found = manifest_.parameters.find(parameter);
  if (found == manifest_.parameters.end()) {
    fail_at(folder_, fmt::format("has no parameter '{}'", parameter), kOtherModel);
  }
  return found->second;
}

void ShardReader::verify_all() {
  of_a_file([&] {
    for (const auto& [index, file] : files_) file->verify_whole();
  });
}

const SafetensorsEntry& ShardReader::entry(const std::string& kind, const std::string& parameter,
                                           const SavedPart& part, std::int64_t block) {
  const ShardFile& holder = file(part.file);
  const auto found = holder.tensors().find(tensor_name(kind, parameter, part.saved_begin));
  if (found == holder.tensors().end()) {
    verify_all();
    const std::string fault = fmt::format("has no {} of parameter '{}'", kind, parameter);
    if (kind == "weight") throw DamagedCheckpoint(folder_ + ": " + fault);
    fail_at(folder_, fault, kHadOtherState);
  }
  const std::int64_t needed = values_of_blocks(part.end - part.saved_begin, block);
  if (found->second.shape.size() != 1 || found->second.shape[0] < needed) {
    throw DamagedCheckpoint(
        fmt::format("{}: '{}' is shorter than the manifest says", holder.path(), found->first));
  }
  return found->second;
}

DataType ShardReader::dtype(const std::string& kind, const std::string& parameter,
                            std::int64_t begin, std::int64_t block) {
  const std::vector<SavedPart> parts = ranges_.parts(parameter, begin, begin + 1);
  if (!parts.empty()) return entry(kind, parameter, parts.front(), block).dtype;
  verify_all();
  throw DamagedCheckpoint(
      fmt::format("{}: element {} of {} of '{}' is in no file", folder_, begin, kind, parameter));
}

void ShardReader::read_part(const std::string& kind, const std::string& parameter,
                            const SavedPart& part, const at::Tensor& destination,
                            std::int64_t block) {
  const SafetensorsEntry& saved = entry(kind, parameter, part, block);
  const std::size_t width = size_of(saved.dtype);
  const auto bytes_until = [&](std::int64_t element) {
    return static_cast<std::uint64_t>(values_of_blocks(element - part.saved_begin, block)) * width;
  };
  std::int64_t done = 0;
  const auto take = [&](std::span<const std::byte> bytes) {
    const auto numel = static_cast<std::int64_t>(bytes.size() / width);
    copy_elements(bytes, saved.dtype, destination.narrow(0, done, numel));
    done += numel;
  };
  of_a_file([&] {
    file(part.file).read(tensor_name(kind, parameter, part.saved_begin), bytes_until(part.begin),
                         bytes_until(part.end), take);
  });
}

void ShardReader::read(const std::string& kind, const std::string& parameter, std::int64_t begin,
                       const at::Tensor& destination, std::int64_t block) {
  std::int64_t end = begin + destination.numel() * block;
  if (block > 1) end = std::min(end, numel_of(shape(parameter)));  // the last block may be shorter
  std::int64_t cursor = begin;
  for (const SavedPart& part : ranges_.parts(parameter, begin, end)) {
    const std::int64_t first = (part.begin - begin) / block;
    read_part(kind, parameter, part,
              destination.narrow(0, first, values_of_blocks(part.end - part.begin, block)), block);
    cursor = part.end;
  }
  if (cursor == end) return;
  verify_all();
  throw DamagedCheckpoint(
      fmt::format("{}: element {} of {} of '{}' is in no file", folder_, cursor, kind, parameter));
}

namespace {

const char* name_of_type(DataType type) {
  return type == DataType::kBFloat16 ? "bf16" : "fp32";
}

// A float32 master is rounded to the nearest bfloat16 number.
void log_converted_weights(ShardReader& reader, const ShardView& shard, const std::string& folder) {
  if (!shard.encoded_ranges.empty()) return;
  const DataType saved = reader.dtype("weight", shard.parameter, shard.begin);
  const DataType wanted = data_type_of(shard.weight);
  if (saved == wanted || saved == DataType::kUInt8) return;
  log_info("{}: trained weights are converted from {} to {}, as precision.master says", folder,
           name_of_type(saved), name_of_type(wanted));
}

void log_converted_moments(ShardReader& reader, const ShardView& shard, const std::string& folder) {
  if (shard.optimizer.empty()) return;
  const auto& [kind, values, block] = shard.optimizer.front();
  const DataType saved = reader.dtype(kind, shard.parameter, shard.begin, block);
  const DataType wanted = data_type_of(values);
  if (saved == wanted) return;
  log_info("{}: moments are converted from {} to {}, as optimizer.moments says", folder,
           name_of_type(saved), name_of_type(wanted));
}

}  // namespace

ReadCounts load_checkpoint(const std::string& folder, std::span<const ShardView> shards,
                           bool with_optimizer_state) {
  ShardReader reader(folder);
  bool logged = false;  // of the first shard, a line for all weights and one for all moments
  for (const ShardView& shard : shards) {
    read_weight(reader, shard);
    if (shard.numel == 0) continue;
    if (!with_optimizer_state || !shard.trainable) continue;
    if (!std::exchange(logged, true)) {
      log_converted_weights(reader, shard, folder);
      log_converted_moments(reader, shard, folder);
    }
    for (const auto& [kind, values, block] : shard.optimizer) {
      reader.read(kind, shard.parameter, shard.begin, values, block);
    }
  }
  return reader.counts();
}

}  // namespace packtrain
