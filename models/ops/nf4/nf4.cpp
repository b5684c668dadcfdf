#include "models/ops/nf4/nf4.h"

#include <ATen/Parallel.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <c10/util/BFloat16.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "framework/core/error.h"
#include "models/ops/nf4/nf4_arithmetic.h"

namespace packtrain {
namespace {

constexpr Nf4Tables kNf4Tables = make_nf4_tables();
constexpr std::int64_t kValuesAtOnce = std::int64_t{1} << 26;

// A group in memory.
struct GroupView {
  std::uint8_t* bytes = nullptr;

  float read_float(int index) const {
    float value = 0;
    std::memcpy(&value, bytes + index * sizeof value, sizeof value);
    return value;
  }
  void write_float(int index, float value) const {
    std::memcpy(bytes + index * sizeof value, &value, sizeof value);
  }
  std::uint8_t* absmax_codes() const { return bytes + kNf4HeaderBytes; }
  std::uint8_t* codes() const { return absmax_codes() + kNf4GroupBlocks; }
};

GroupView group_of(const at::Tensor& bytes, std::int64_t index) {
  return {bytes.data_ptr<std::uint8_t>() + index * kNf4GroupBytes};
}

template <typename T>
float block_absmax(const T* values) {
  float largest = 0;
  for (std::int64_t i = 0; i < kNf4BlockElements; ++i) {
    largest = std::max(largest, std::abs(static_cast<float>(values[i])));
  }
  return largest;
}

template <typename T>
void quantize_block(const T* values, float absmax, std::uint8_t* codes) {
  const float scale = nf4_scale(absmax);
  for (std::int64_t i = 0; i < kNf4BlockElements; i += 2) {
    const auto code = [&](std::int64_t at) {
      return nf4_code(kNf4Tables, static_cast<float>(values[at]) * scale);
    };
    codes[i / 2] = static_cast<std::uint8_t>(code(i) << 4 | code(i + 1));
  }
}

template <typename T>
void quantize_group(const T* values, std::int64_t num_blocks, float offset,
                    const GroupView& group) {
  std::array<float, kNf4GroupBlocks> differences = {};
  float nested = 0;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const T* of_block = values + block * kNf4BlockElements;
    const float absmax = block_absmax(of_block);
    quantize_block(of_block, absmax, group.codes() + block * kNf4BlockElements / 2);
    const float difference = absmax - offset;
    differences[static_cast<std::size_t>(block)] = difference;
    nested = std::max(nested, std::abs(difference));
  }
  group.write_float(0, nested);
  group.write_float(1, offset);
  const float inverse = nested == 0 ? 0 : 1.0F / nested;
  for (std::int64_t block = 0; block < num_blocks; ++block) {
    const float difference = differences[static_cast<std::size_t>(block)];
    group.absmax_codes()[block] =
        nested == 0 ? std::uint8_t{0} : absmax_code(kNf4Tables, difference, inverse);
  }
}

template <typename T>
void decode_group(const GroupView& group, std::int64_t numel, T* values) {
  const float nested = group.read_float(0);
  const float offset = group.read_float(1);
  for (std::int64_t begin = 0; begin < numel; begin += kNf4BlockElements) {
    const std::uint8_t code = group.absmax_codes()[begin / kNf4BlockElements];
    const float absmax = decoded_absmax(kNf4Tables, code, nested, offset);
    for (std::int64_t i = begin; i < begin + kNf4BlockElements; i += 2) {
      const std::uint8_t pair = group.codes()[i / 2];
      values[i] = static_cast<T>(kNf4Tables.quantiles[pair >> 4] * absmax);
      values[i + 1] = static_cast<T>(kNf4Tables.quantiles[pair & 15] * absmax);
    }
  }
}

// Calls use(pointer to the elements), of float or bfloat16.
template <typename Use>
void with_elements(const at::Tensor& values, const Use& use) {
  if (values.scalar_type() == at::kFloat) return use(values.data_ptr<float>());
  if (values.scalar_type() == at::kBFloat16) return use(values.data_ptr<c10::BFloat16>());
  throw Error(ErrorCategory::kInternal, "nf4: values are float32 or bfloat16");
}

void decode_range(const EncodedParameter& parameter, const ElementRange& range,
                  std::int64_t first_group, const at::Tensor& values) {
  with_elements(values, [&](auto* elements) {
    at::parallel_for(0, num_nf4_groups(range.numel), 1, [&](auto first, auto last) {
      for (std::int64_t group = first; group < last; ++group) {
        const std::int64_t begin = group * kNf4GroupElements;
        decode_group(group_of(parameter.bytes, first_group + group),
                     std::min(kNf4GroupElements, range.numel - begin),
                     elements + range.begin + begin);
      }
    });
  });
}

at::Tensor absmax_of_tensor(std::int64_t numel, const ReadValues& read, at::Tensor& kept) {
  std::vector<at::Tensor> parts;
  for (std::int64_t begin = 0; begin < numel; begin += kValuesAtOnce) {
    const at::Tensor values = read(begin, std::min(kValuesAtOnce, numel - begin));
    parts.push_back(nf4_absmax(values).cpu());
    if (numel <= kValuesAtOnce) kept = values;
  }
  return at::cat(parts);
}

}  // namespace

void nf4_decode(const EncodedParameter& parameter, const at::Tensor& values) {
  if (values.is_cuda()) return nf4_decode_cuda(parameter, values);
  std::int64_t first_group = 0;
  for (const ElementRange& range : parameter.ranges) {
    decode_range(parameter, range, first_group, values);
    first_group += num_nf4_groups(range.numel);
  }
}

at::Tensor nf4_absmax(const at::Tensor& values) {
  if (values.is_cuda()) return nf4_absmax_cuda(values);
  const std::int64_t num_blocks = values.numel() / kNf4BlockElements;
  at::Tensor absmax = at::empty({num_blocks}, at::kFloat);
  float* out = absmax.data_ptr<float>();
  with_elements(values, [&](const auto* elements) {
    at::parallel_for(0, num_blocks, kNf4GroupBlocks, [&](auto first, auto last) {
      for (std::int64_t block = first; block < last; ++block) {
        out[block] = block_absmax(elements + block * kNf4BlockElements);
      }
    });
  });
  return absmax;
}

float nf4_offset(const at::Tensor& absmax) {
  float offset = 0;
  // Within a parallel region libtorch adds with one thread.
  at::parallel_for(0, 2, 1, [&](auto first, auto /*last*/) {
    if (first == 0) offset = absmax.mean().template item<float>();
  });
  return offset;
}

void nf4_quantize(const at::Tensor& values, float offset, const at::Tensor& groups) {
  if (values.is_cuda()) return nf4_quantize_cuda(values, offset, groups);
  const std::int64_t num_blocks = values.numel() / kNf4BlockElements;
  with_elements(values, [&](const auto* elements) {
    at::parallel_for(0, num_nf4_groups(values.numel()), 1, [&](auto first, auto last) {
      for (std::int64_t group = first; group < last; ++group) {
        const std::int64_t block = group * kNf4GroupBlocks;
        quantize_group(elements + block * kNf4BlockElements,
                       std::min(kNf4GroupBlocks, num_blocks - block), offset,
                       group_of(groups, group));
      }
    });
  });
}

void nf4_quantize_tensor(std::int64_t tensor_numel, std::int64_t first_group,
                         const at::Tensor& groups, const ReadValues& read) {
  at::Tensor kept;
  const float offset = nf4_offset(absmax_of_tensor(tensor_numel, read, kept));
  const std::int64_t num_groups = groups.numel() / kNf4GroupBytes;
  constexpr std::int64_t kAtOnce = kValuesAtOnce / kNf4GroupElements;
  for (std::int64_t group = 0; group < num_groups; group += kAtOnce) {
    const std::int64_t count = std::min(kAtOnce, num_groups - group);
    const std::int64_t begin = (first_group + group) * kNf4GroupElements;
    const std::int64_t numel = std::min(count * kNf4GroupElements, tensor_numel - begin);
    nf4_quantize(kept.defined() ? kept.narrow(0, begin, numel) : read(begin, numel), offset,
                 groups.narrow(0, group * kNf4GroupBytes, count * kNf4GroupBytes));
  }
}

}  // namespace packtrain
