#include "training/checkpoint/save_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "framework/core/error.h"
#include "framework/core/file.h"
#include "framework/core/hash.h"
#include "models/adapters/adapter_weights.h"
#include "models/adapters/lora_text.h"
#include "training/checkpoint/shard_file.h"
#include "training/checkpoint/tensor_bytes.h"

namespace packtrain {
namespace {

using nlohmann::json;

// With more ranges a manifest could exceed its readers' size limit. Readers then use the files'
// headers.
constexpr std::size_t kMaxRanges = 2'000'000;

// A range as it is sent. `key` identifies name and shape, which one rank sends as text.
struct SentRange {
  std::uint64_t key = 0;
  std::int64_t begin = 0;
  std::int64_t numel = 0;
};

std::uint64_t key_of(const std::string& name, const std::vector<std::int64_t>& shape) {
  const std::string text = fmt::format("{} [{}]", name, fmt::join(shape, ", "));
  return digest_bytes(std::as_bytes(std::span(text))).low;
}

bool saves_optimizer_state(const ShardView& shard, bool weights_only) {
  return shard.trainable && !weights_only;
}

std::uint64_t num_bytes_of(std::span<const ShardView> shards, bool weights_only) {
  std::uint64_t bytes = 0;
  for (const ShardView& shard : shards) {
    if (shard.weight.defined()) bytes += shard.weight.nbytes();
    if (!saves_optimizer_state(shard, weights_only)) continue;
    for (const OptimizerTensor& tensor : shard.optimizer) bytes += tensor.values.nbytes();
  }
  return bytes;
}

// The tensors of one rank's file, kept in CPU memory until they are written.
class RankTensors {
 public:
  // `block`: elements of the parameter for each of the tensor.
  void add(const std::string& kind, const ShardView& shard, const at::Tensor& tensor,
           std::int64_t block = 1) {
    const std::int64_t numel = (shard.numel + block - 1) / block;
    if (!tensor.defined() || tensor.dim() != 1 || tensor.numel() != numel ||
        shard.begin % block != 0) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("{} of '{}' is not a 1-D tensor of {} elements", kind,
                              shard.parameter, numel));
    }
    kept_.push_back(tensor.cpu().contiguous());
    tensors_.push_back({fmt::format("{}/{}@{}", kind, shard.parameter, shard.begin),
                        data_type_of(tensor),
                        {numel},
                        bytes_of(kept_.back())});
  }
  std::span<const TensorToWrite> tensors() const { return tensors_; }

 private:
  std::vector<at::Tensor> kept_;
  std::vector<TensorToWrite> tensors_;
};

// The first eight bytes are the length of the text. The text and the ranges follow.
std::string pack(const json& object, const std::vector<SentRange>& ranges) {
  const std::string text = object.dump();
  const std::uint64_t length = text.size();
  std::string report(reinterpret_cast<const char*>(&length), sizeof length);
  report += text;
  report.append(reinterpret_cast<const char*>(ranges.data()), ranges.size() * sizeof(SentRange));
  return report;
}

struct Report {
  json object;
  std::vector<SentRange> ranges;
};

Report unpack(std::string_view report) {
  std::uint64_t length = 0;
  std::memcpy(&length, report.data(), sizeof length);
  report.remove_prefix(sizeof length);
  Report result{json::parse(report.substr(0, length)), {}};
  report.remove_prefix(length);
  result.ranges.resize(report.size() / sizeof(SentRange));
  if (!report.empty()) std::memcpy(result.ranges.data(), report.data(), report.size());
  return result;
}

json encoded_shape(const ShardView& shard) {
  std::vector<std::int64_t> numels;
  for (const ElementRange& range : shard.encoded_ranges) numels.push_back(range.numel);
  return {{"shape", shard.decoded_shape}, {"tensors", numels}, {"format", shard.format}};
}

std::vector<SavedRange> saved_ranges(const std::vector<SentRange>& sent,
                                     const std::map<std::uint64_t, std::size_t>& places,
                                     const std::string& file) {
  std::vector<SavedRange> ranges;
  for (const SentRange& range : sent) {
    const auto place = places.find(range.key);
    if (place == places.end()) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("ranks disagree on the name or the shape of a parameter: {} has "
                              "elements from {} on of one whose first nobody holds",
                              file, range.begin));
    }
    ranges.push_back({place->second, range.begin, range.numel});
  }
  return ranges;
}

}  // namespace

Writers find_writers(std::span<const ShardView> shards, bool weights_only, Communicator& control) {
  const auto own = static_cast<std::int64_t>(num_bytes_of(shards, weights_only));
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(control.size()));
  control.all_gather(&own, bytes.data(), 1, DataType::kInt64, nullptr);
  Writers writers;
  writers.num_bytes = std::accumulate(bytes.begin(), bytes.end(), std::uint64_t{0});
  for (int rank = 0; rank < control.size(); ++rank) {
    const bool writes =
        bytes[static_cast<std::size_t>(rank)] > 0 || (rank == 0 && writers.num_bytes == 0);
    if (!writes) continue;
    if (rank == control.rank()) writers.own = writers.num;
    ++writers.num;
  }
  return writers;
}

std::string write_own_file(const std::string& folder, std::span<const ShardView> shards,
                           bool weights_only, const Writers& writers) {
  RankTensors tensors;
  json parameters = json::object();
  json encoded = json::object();
  std::vector<SentRange> ranges;
  for (const ShardView& shard : shards) {
    if (shard.begin == 0) parameters[shard.parameter] = shard.shape;
    if (shard.begin == 0 && !shard.encoded_ranges.empty()) {
      encoded[shard.parameter] = encoded_shape(shard);
    }
    if (shard.numel == 0) continue;
    ranges.push_back({key_of(shard.parameter, shard.shape), shard.begin, shard.numel});
    tensors.add("weight", shard, shard.weight);
    if (!saves_optimizer_state(shard, weights_only)) continue;
    for (const auto& [kind, values, block] : shard.optimizer) {
      tensors.add(kind, shard, values, block);
    }
  }
  const std::string name = rank_file_name(*writers.own, writers.num);
  const CheckpointFile file = write_shard_file(folder, name, tensors.tensors());
  sync_folder(folder, ErrorCategory::kCheckpoint);
  return pack({{"name", file.name},
               {"size", file.size},
               {"digest", file.digest},
               {"header_size", file.header_size},
               {"header_digest", file.header_digest},
               {"parameters", parameters},
               {"encoded", encoded}},
              ranges);
}

Manifest manifest_of(const TrainingState& state, const std::vector<std::string>& reports) {
  Manifest manifest;
  manifest.state = state;
  if (!state.adapter.empty()) {
    manifest.requirements = {kAdapterRequirement};
    if (has_several_adapters(state.adapter)) manifest.requirements.push_back(kAdaptersRequirement);
    if (has_magnitudes(state.adapter)) manifest.requirements.push_back(kMagnitudesRequirement);
  }
  std::vector<Report> read;
  std::size_t num_ranges = 0;
  for (const std::string& text : reports) {
    if (text.empty()) continue;
    num_ranges += read.emplace_back(unpack(text)).ranges.size();
    for (const auto& [name, shape] : read.back().object["parameters"].items()) {
      manifest.parameters.try_emplace(name, shape);
    }
    for (const auto& [name, encoded] : read.back().object["encoded"].items()) {
      manifest.encoded.try_emplace(
          name, EncodedShape{encoded["shape"], encoded["tensors"], encoded["format"]});
    }
  }
  for (const auto& [format, requirement] :
       {std::pair(ParameterEncoding::Format::kNf4, kNf4Requirement),
        std::pair(ParameterEncoding::Format::kFp8, kFp8Requirement)}) {
    const bool has = std::ranges::any_of(
        manifest.encoded, [&](const auto& entry) { return entry.second.format == format; });
    if (has) manifest.requirements.emplace_back(requirement);
  }
  if (std::ranges::any_of(manifest.parameters,
                          [](const auto& entry) { return is_initial_name(entry.first); })) {
    manifest.requirements.emplace_back(kInitialValuesRequirement);
  }
  std::map<std::uint64_t, std::size_t> places;
  for (const auto& [name, shape] : manifest.parameters) {
    places.try_emplace(key_of(name, shape), places.size());
  }
  for (const Report& report : read) {
    const json& object = report.object;
    manifest.files.push_back({.name = object["name"],
                              .size = object["size"],
                              .digest = object["digest"],
                              .header_size = object["header_size"],
                              .header_digest = object["header_digest"]});
    auto ranges = saved_ranges(report.ranges, places, manifest.files.back().name);
    if (num_ranges <= kMaxRanges) manifest.files.back().ranges = std::move(ranges);
  }
  manifest.state.num_ranks = static_cast<std::int64_t>(manifest.files.size());
  return manifest;
}

}  // namespace packtrain
