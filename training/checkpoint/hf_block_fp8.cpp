#include "training/checkpoint/hf_block_fp8.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "training/checkpoint/checkpoint_error.h"

namespace packtrain {
namespace {

constexpr std::int64_t kSide = 128;  // of a block

constexpr const char* kBlockFp8Advice =
    "packtrain reads 8-bit floats (e4m3) with a float32 scale for each block of 128 x 128, as "
    "DeepSeek-V3 is published. Use the unquantized model.";

std::int64_t num_blocks(std::int64_t size) {
  return (size + kSide - 1) / kSide;
}

// Code 0x7F and its negative are NaN. Exponent 0 has subnormal numbers.
float number_of(unsigned code) {
  const unsigned exponent = (code >> 3) & 15;
  const unsigned mantissa = code & 7;
  float magnitude = std::numeric_limits<float>::quiet_NaN();
  if (exponent == 0) {
    magnitude = std::ldexp(static_cast<float>(mantissa), -9);
  } else if (exponent != 15 || mantissa != 7) {
    magnitude = std::ldexp(static_cast<float>(8 + mantissa), static_cast<int>(exponent) - 10);
  }
  return (code & 128) != 0 ? -magnitude : magnitude;
}

const std::array<float, 256>& numbers() {
  static const std::array<float, 256> table = [] {
    std::array<float, 256> made{};
    for (unsigned code = 0; code < made.size(); ++code) made[code] = number_of(code);
    return made;
  }();
  return table;
}

std::vector<std::int64_t> shape_of_scales(std::vector<std::int64_t> shape) {
  for (std::size_t i = shape.size() - 2; i < shape.size(); ++i) shape[i] = num_blocks(shape[i]);
  return shape;
}

BlockFp8Tensor take_coded(std::map<std::string, HfTensor>& tensors, const std::string& name) {
  const HfTensor codes = tensors.at(name);
  const auto fail = [&](const std::string& fault) {
    fail_at(codes.file->path(), fmt::format("tensor '{}' has dtype F8_E4M3 {}", name, fault),
            kBlockFp8Advice);
  };
  const auto found = tensors.find(name + std::string(kBlockScaleSuffix));
  if (found == tensors.end()) fail(fmt::format("and no scales '{}{}'", name, kBlockScaleSuffix));
  const HfTensor scales = found->second;
  const std::vector<std::int64_t>& shape = codes.view->shape;
  if (shape.size() != 2 && shape.size() != 3) fail("and is no matrix");
  const std::vector<std::int64_t> wanted = shape_of_scales(shape);
  if (scales.view->dtype != DataType::kFloat32 || scales.view->shape != wanted) {
    fail(fmt::format("and its scales have shape [{}], want float32 [{}]",
                     fmt::join(scales.view->shape, ", "), fmt::join(wanted, ", ")));
  }
  tensors.erase(found);
  const auto plain =
      std::make_shared<const TensorView>(TensorView{DataType::kFloat32, shape, codes.view->data});
  tensors[name] = {codes.file, plain.get()};
  return {codes, scales, plain};
}

}  // namespace

bool is_block_fp8(const std::map<std::string, HfTensor>& tensors, const std::string& name) {
  const std::string suffix(kBlockScaleSuffix);
  const bool is_scale = name.ends_with(suffix);
  const std::string of = is_scale ? name.substr(0, name.size() - suffix.size()) : name;
  const auto codes = tensors.find(of);
  return codes != tensors.end() && codes->second.view->dtype == DataType::kFloat8E4M3 &&
         tensors.contains(of + suffix);
}

BlockFp8Tensors take_block_fp8_tensors(std::map<std::string, HfTensor>& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    if (tensor.view->dtype == DataType::kFloat8E4M3) names.push_back(name);
  }
  BlockFp8Tensors taken;
  for (const std::string& name : names) taken.emplace(name, take_coded(tensors, name));
  return taken;
}

void decode_block_fp8(const BlockFp8Tensor& tensor, std::int64_t first, std::span<float> values) {
  const std::vector<std::int64_t>& shape = tensor.plain->shape;
  const std::int64_t columns = shape.back();
  const std::int64_t rows = shape[shape.size() - 2];
  const std::byte* codes = tensor.plain->data.data();
  const std::byte* scales = tensor.scales.view->data.data();
  const auto count = static_cast<std::int64_t>(values.size());
  for (std::int64_t next = 0; next < count;) {
    const std::int64_t row = (first + next) / columns;
    const std::int64_t column = (first + next) % columns;
    const std::int64_t block_row = row / rows * num_blocks(rows) + row % rows / kSide;
    const std::int64_t block = block_row * num_blocks(columns) + column / kSide;
    float scale = 0;  // the file may have it at any address
    std::memcpy(&scale, scales + block * static_cast<std::int64_t>(sizeof scale), sizeof scale);
    const std::int64_t run = std::min({count - next, columns - column, kSide - column % kSide});
    for (const std::int64_t end = next + run; next < end; ++next) {
      const auto code = std::to_integer<std::size_t>(codes[first + next]);
      values[static_cast<std::size_t>(next)] = numbers()[code] * scale;
    }
  }
}

}  // namespace packtrain
