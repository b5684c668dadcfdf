// A rank reads of a model's files what it owns: hundreds of GB of (sparse) files in little memory.
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>

#include "models/families/family.h"
#include "tests/helpers/temporary_folder.h"
#include "training/checkpoint/hf_files.h"
#include "training/checkpoint/hugging_face.h"

namespace packtrain {
namespace {

using nlohmann::json;
using test::TemporaryFolder;

constexpr std::int64_t kMegabyte = 1 << 20;

struct Model {
  const char* name;
  const char* config;
  std::int64_t least_bytes;
};

void PrintTo(const Model& model, std::ostream* out) {
  *out << model.name;
}

const Model kModels[] = {
    {"llama_2_70b",
     R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 8192,
         "intermediate_size": 28672, "num_hidden_layers": 80, "num_attention_heads": 64,
         "num_key_value_heads": 8})",
     137'000'000'000},
    {"falcon_180b",  // rows of queries, keys and values in turns
     R"({"model_type": "falcon", "vocab_size": 65024, "hidden_size": 14848,
         "num_hidden_layers": 80, "num_attention_heads": 232, "num_kv_heads": 8,
         "new_decoder_architecture": true})",
     357'000'000'000},
};

// Writes a sparse file of bfloat16 zeros. It has a header and a hole, which takes no disk space.
void write_sparse(const std::string& path, const json& header, std::int64_t num_bytes) {
  const std::string text = header.dump();
  const std::uint64_t length = text.size();
  {
    OutputFile file(path, OutputFile::Mode::kCreate, ErrorCategory::kInternal);
    file.write(std::as_bytes(std::span(&length, 1)));
    file.write(text);
    file.close();
  }
  std::filesystem::resize_file(path,
                               sizeof length + length + static_cast<std::uint64_t>(num_bytes));
}

// Files of about 5 GB and their index; the bytes of all tensors.
std::int64_t write_model(const std::string& folder, const std::vector<WeightPiece>& pieces) {
  json index = json::object();
  json header = json::object();
  std::int64_t end = 0;
  std::int64_t total = 0;
  int num_files = 0;
  const auto name = [&] { return "part-" + std::to_string(num_files) + ".safetensors"; };
  const auto finish_file = [&] {
    write_sparse(folder + "/" + name(), header, end);
    total += std::exchange(end, 0);
    header = json::object();
    ++num_files;
  };
  for (const WeightPiece& piece : pieces) {
    if (index.contains(piece.hf_name)) continue;
    const std::int64_t begin = end;
    end += piece.hf_numel() * 2;
    header[piece.hf_name] = {
        {"dtype", "BF16"}, {"shape", piece.hf_shape}, {"data_offsets", {begin, end}}};
    index[piece.hf_name] = name();
    if (end > 5'000'000'000) finish_file();
  }
  finish_file();
  write_hf_json(folder + "/" + kHfIndexName, {{"weight_map", index}});
  return total;
}

std::int64_t numel_of(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

// A rank's range of every layer's flat buffer, as sharding cuts it.
std::vector<ShardView> shards_of(const DecoderConfig& config, std::int64_t rank,
                                 std::int64_t num_ranks) {
  std::map<std::string, std::vector<std::pair<std::string, std::vector<std::int64_t>>>> blocks;
  for (const auto& [name, shape] : parameter_shapes(config)) {
    const bool in_layer = name.starts_with("layers.");
    blocks[in_layer ? name.substr(0, name.find('.', 7)) : name].emplace_back(name, shape);
  }
  std::vector<ShardView> shards;
  for (const auto& [block, parameters] : blocks) {
    std::int64_t numel = 0;
    for (const auto& [name, shape] : parameters) numel += numel_of(shape);
    const std::int64_t first = numel * rank / num_ranks;
    const std::int64_t last = numel * (rank + 1) / num_ranks;
    std::int64_t offset = 0;
    for (const auto& [name, shape] : parameters) {
      const std::int64_t begin = std::clamp(first - offset, std::int64_t{0}, numel_of(shape));
      const std::int64_t end = std::clamp(last - offset, std::int64_t{0}, numel_of(shape));
      offset += numel_of(shape);
      if (begin == end) continue;
      shards.push_back(
          {name, shape, begin, end - begin, true, at::empty({end - begin}, at::kFloat), {}});
    }
  }
  return shards;
}

// Resident memory of this process at its highest since reset_peak(), its mapped files included.
std::int64_t peak_resident_bytes() {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/proc/self/status", "r"),
                                                             &std::fclose);
  std::array<char, 256> line{};
  long kilobytes = -1;
  while (std::fgets(line.data(), line.size(), file.get()) != nullptr) {
    if (std::sscanf(line.data(), "VmHWM: %ld", &kilobytes) == 1) break;
  }
  return kilobytes * 1024;
}

void reset_peak() {
  OutputFile file("/proc/self/clear_refs", OutputFile::Mode::kAppend, ErrorCategory::kInternal);
  file.write("5");  // proc(5): the peak becomes what is resident now
  file.close();
}

class HfMemory : public ::testing::TestWithParam<Model> {};

TEST_P(HfMemory, ARankOfManyReadsOnlyItsShare) {
  const TemporaryFolder folder;
  const DecoderConfig config = parse_decoder_config(GetParam().config);
  const std::int64_t model_bytes =
      write_model(folder.path(), find_family(config.family).weights(config));
  EXPECT_GT(model_bytes, GetParam().least_bytes);
  reset_peak();
  const std::int64_t before = peak_resident_bytes();
  const auto shards = shards_of(config, 1000, 2048);
  import_weights(folder.path(), config, shards);
  const std::int64_t growth = peak_resident_bytes() - before;
  std::int64_t owned = 0;
  for (const ShardView& shard : shards) owned += shard.numel;
  EXPECT_EQ(owned * 2 / kMegabyte, model_bytes / 2048 / kMegabyte);
  // Four bytes an element in memory, and two that are read from files; not a whole layer more.
  EXPECT_LT(growth, owned * 6 + 64 * kMegabyte);
  EXPECT_GT(growth, owned * 4);
}

INSTANTIATE_TEST_SUITE_P(Of, HfMemory, ::testing::ValuesIn(kModels),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace packtrain
