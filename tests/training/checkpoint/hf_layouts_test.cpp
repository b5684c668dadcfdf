// Tests every way in which a Hugging Face tensor can hold our parameters. Several ranks read it in
// odd ranges and write it again. Its bytes stay the same.
#include <ATen/ops/full.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "framework/core/safetensors.h"
#include "tests/helpers/temporary_folder.h"
#include "training/checkpoint/hf_weights.h"

namespace packtrain {
namespace {

using test::TemporaryFolder;

struct Layout {
  const char* name;
  std::function<void(WeightMap&)> build;
};

void PrintTo(const Layout& layout, std::ostream* out) {
  *out << layout.name;
}

// q, k, v of `groups` key heads with `queries` query heads each, rows of `width` in turns.
void interleaved_heads(WeightMap& map) {
  const std::int64_t groups = 3, queries = 2, head = 4 * 5;  // head_dim 4, 5 columns
  const std::int64_t stride = (queries + 2) * head;
  const std::vector<std::int64_t> shape = {groups * (queries + 2) * 4, 5};
  map.strided("qkv", "fused", shape, {0, groups, queries * head, stride});
  map.strided("qkv", "fused", shape, {queries * head, groups, head, stride});
  map.strided("qkv", "fused", shape, {(queries + 1) * head, groups, head, stride});
}

// Experts [E, H, 2 I], gate and up in turns along the last axis; ours [E, 2 I, H].
void interleaved_experts(WeightMap& map) {
  const std::int64_t experts = 3, hidden = 5, inner = 4;
  const std::int64_t size = 2 * inner * hidden;
  for (std::int64_t e = 0; e < experts; ++e) {
    for (const std::int64_t half : {0, 1}) {
      map.strided("experts", "gate_up", {experts, hidden, 2 * inner},
                  {e * size + half, inner, hidden, 2, 2 * inner});
    }
  }
}

const Layout kLayouts[] = {
    {"whole", [](WeightMap& map) { map.linear("a", "x", 7, 5, true); }},
    {"several_into_one",
     [](WeightMap& map) {
       map.linear("a", "x", 7, 5, true);
       map.linear("a", "y", 3, 5, true);
       map.linear("a", "z", 1, 5, true);
     }},
    {"one_into_several",
     [](WeightMap& map) {
       map.part("a", "x", {10, 3}, 0, 12);
       map.part("b", "x", {10, 3}, 12, 18);
     }},
    {"rows_swapped",
     [](WeightMap& map) {
       map.part("a", "x", {2, 4, 3}, 12, 12);
       map.part("a", "x", {2, 4, 3}, 0, 12);
     }},
    {"transposed", [](WeightMap& map) { map.transposed("a", "x", {5, 7}, 0, 7, 5); }},
    {"transposed_experts",
     [](WeightMap& map) {
       for (std::int64_t e = 0; e < 3; ++e) {
         map.transposed("a", "x", {15, 7}, e * 35, 7, 5);
       }
     }},
    {"interleaved_heads", interleaved_heads},
    {"interleaved_experts", interleaved_experts},
};

class HfLayout : public ::testing::TestWithParam<Layout> {};

std::vector<WeightPiece> pieces_of(const Layout& layout) {
  WeightMap map;
  layout.build(map);
  return map.take();
}

// Random finite bfloat16 values in a file whose tensors may begin at odd bytes.
std::map<std::string, std::vector<std::uint8_t>> write_source(
    const std::string& folder, const std::vector<WeightPiece>& pieces, bool aligned) {
  std::map<std::string, std::vector<std::uint8_t>> bytes;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  std::mt19937 random(7);
  for (const WeightPiece& piece : pieces) {
    std::vector<std::uint8_t>& tensor = bytes[piece.hf_name];
    if (!tensor.empty()) continue;
    shapes[piece.hf_name] = piece.hf_shape;
    tensor.resize(static_cast<std::size_t>(piece.hf_numel()) * 2);
    for (std::uint8_t& byte : tensor) byte = static_cast<std::uint8_t>(random() & 0x7e);
  }
  std::vector<TensorHeader> headers;
  if (!aligned) headers.push_back({"odd", DataType::kUInt8, {1}});
  for (const auto& [name, shape] : shapes) headers.push_back({name, DataType::kBFloat16, shape});
  SafetensorsWriter writer(folder + "/" + kHfWeightsName, headers, {}, ErrorCategory::kCheckpoint);
  if (!aligned) writer.write(std::as_bytes(std::span("x", 1)));
  for (const auto& [name, data] : bytes) writer.write(std::as_bytes(std::span(data)));
  writer.finish();
  return bytes;
}

using Parameters = std::map<std::string, at::Tensor>;  // flattened

Parameters read_as_ranks(const std::string& folder, const std::vector<WeightPiece>& pieces,
                         std::int64_t num_ranks, at::ScalarType type) {
  std::map<std::string, std::int64_t> numel;
  for (const WeightPiece& piece : pieces) numel[piece.parameter] += piece.numel();
  Parameters parameters;
  const auto tensors = open_hf_tensors(folder);
  for (const auto& [name, size] : numel) {
    const at::Tensor whole = at::full({size}, std::numeric_limits<float>::quiet_NaN(), type);
    const std::int64_t share = size / num_ranks + 1;
    for (std::int64_t begin = 0; begin < size; begin += share) {
      const std::int64_t owned = std::min(share, size - begin);
      const ShardView shard{name, {size}, begin, owned, true, whole.narrow(0, begin, owned), {}};
      read_hf_weights({tensors, {}, {}}, pieces, std::span(&shard, 1));
    }
    parameters[name] = whole;
  }
  return parameters;
}

void expect_round_trip(const Layout& layout, std::int64_t num_ranks, at::ScalarType type,
                       bool aligned) {
  const TemporaryFolder in;
  const TemporaryFolder out;
  const auto pieces = pieces_of(layout);
  const auto wanted = write_source(in / "", pieces, aligned);
  const Parameters parameters = read_as_ranks(in / "", pieces, num_ranks, type);
  write_hf_weights(
      out / "", pieces, [&](const std::string& name) { return parameters.at(name); }, {},
      ExportOptions().max_shard_bytes);
  const auto file = SafetensorsFile::open(out / kHfWeightsName, ErrorCategory::kCheckpoint);
  ASSERT_EQ(file->tensors().size(), wanted.size());
  for (const auto& [name, bytes] : wanted) {
    const auto got = file->tensor(name).data;
    EXPECT_TRUE(std::ranges::equal(got, std::as_bytes(std::span(bytes))))
        << name << ", " << num_ranks << " ranks";
  }
}

TEST_P(HfLayout, ReadAndWrittenAgainHasTheSameBytes) {
  for (const std::int64_t num_ranks : {1, 2, 5, 16, 200}) {
    expect_round_trip(GetParam(), num_ranks, at::kFloat, true);
  }
  expect_round_trip(GetParam(), 3, at::kBFloat16, true);
}

TEST_P(HfLayout, MayStartAtAnyByteOfItsFile) {
  expect_round_trip(GetParam(), 3, at::kFloat, false);
}

INSTANTIATE_TEST_SUITE_P(Of, HfLayout, ::testing::ValuesIn(kLayouts),
                         [](const auto& info) { return std::string(info.param.name); });

// Compares the place of each element with an index computed by hand.
TEST(HfLayouts, ATransposedTensorIsTransposed) {
  const TemporaryFolder folder;
  std::vector<float> values(6);
  std::iota(values.begin(), values.end(), 0.0F);
  const std::vector<TensorToWrite> tensors = {
      {"x", DataType::kFloat32, {2, 3}, std::as_bytes(std::span(values))}};
  write_safetensors(folder / kHfWeightsName, tensors, {}, ErrorCategory::kCheckpoint);
  WeightMap map;
  map.transposed("a", "x", {2, 3}, 0, 3, 2);
  const at::Tensor got = read_as_ranks(folder / "", map.take(), 2, at::kFloat).at("a");
  const std::vector<float> wanted = {0, 3, 1, 4, 2, 5};
  EXPECT_TRUE(std::equal(wanted.begin(), wanted.end(), got.const_data_ptr<float>()));
}

TEST(HfLayouts, AParameterThatNoTensorIsMappedToIsAnInternalError) {
  const ShardView shard{"mystery", {2}, 0, 2, true, at::full({2}, 0.0), {}};
  const Error error =
      test::error_of([&] { read_hf_weights({{}, {}, {}}, {}, std::span(&shard, 1)); });
  EXPECT_EQ(error.category(), ErrorCategory::kInternal);
}

}  // namespace
}  // namespace packtrain
