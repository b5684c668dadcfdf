#include "training/checkpoint/encoded_weights.h"

#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "models/block/fp8_bytes.h"
#include "models/ops/fp8/fp8_stored.h"
#include "models/ops/nf4/nf4.h"
#include "training/checkpoint/checkpoint_error.h"
#include "training/checkpoint/encode_shard.h"

namespace packtrain {
namespace {

const EncodedShape* find_encoded(const ShardReader& reader, const std::string& parameter) {
  const auto& encoded = reader.manifest().encoded;
  const auto found = encoded.find(parameter);
  return found == encoded.end() ? nullptr : &found->second;
}

void check_shape(const ShardReader& reader, const ShardView& shard) {
  const EncodedShape* encoded = find_encoded(reader, shard.parameter);
  const auto& saved = encoded != nullptr ? encoded->shape : reader.shape(shard.parameter);
  const auto& wanted = shard.encoded_ranges.empty() ? shard.shape : shard.decoded_shape;
  if (saved == wanted) return;
  fail_at(reader.folder(),
          fmt::format("parameter '{}' has shape [{}], want [{}]", shard.parameter,
                      fmt::join(saved, ", "), fmt::join(wanted, ", ")),
          "It was saved from another model; compare the model section with the saved one.");
}

bool has_tensors(const EncodedShape& encoded, const ShardView& shard) {
  return encoded.format == shard.format &&
         std::ranges::equal(encoded.tensor_numels, shard.encoded_ranges, {}, {},
                            &ElementRange::numel);
}

void encode(ShardReader& reader, const ShardView& shard) {
  encode_shard(shard, [&](std::int64_t begin, std::int64_t numel) {
    const at::Tensor values = at::empty({numel}, shard.weight.options().dtype(at::kFloat));
    read_decoded(reader, shard.parameter, begin, values);
    return values;
  });
}

void read_decoded_fp8(ShardReader& reader, const std::string& parameter, std::int64_t numel,
                      std::int64_t begin, const at::Tensor& destination) {
  const at::Tensor scale = at::empty({kFp8ScaleBytes}, at::kByte);
  reader.read("weight", parameter, numel, scale);
  const at::Tensor codes = at::empty({destination.numel()}, at::kByte);
  reader.read("weight", parameter, begin, codes);
  destination.copy_(fp8_decode_codes(codes, scale.view(at::kFloat)));
}

// Decodes the elements [begin, end) of a tensor, whose groups begin at `first_group` of the
// parameter.
at::Tensor decode_elements(ShardReader& reader, const std::string& parameter,
                           std::int64_t tensor_numel, std::int64_t first_group, std::int64_t begin,
                           std::int64_t end) {
  const std::int64_t group = begin / kNf4GroupElements;
  const std::int64_t num_groups = num_nf4_groups(end) - group;
  const at::Tensor groups = at::empty({num_groups * kNf4GroupBytes}, at::kByte);
  reader.read("weight", parameter, (first_group + group) * kNf4GroupBytes, groups);
  const std::int64_t decoded_begin = group * kNf4GroupElements;
  const std::int64_t numel = std::min(num_groups * kNf4GroupElements, tensor_numel - decoded_begin);
  const at::Tensor values = at::empty({numel}, at::kFloat);
  nf4_decode({groups, {{0, numel}}}, values);
  return values.narrow(0, begin - decoded_begin, end - begin);
}

}  // namespace

void read_decoded(ShardReader& reader, const std::string& parameter, std::int64_t begin,
                  const at::Tensor& destination) {
  const EncodedShape* encoded = find_encoded(reader, parameter);
  if (encoded == nullptr) return reader.read("weight", parameter, begin, destination);
  if (encoded->format == ParameterEncoding::Format::kFp8) {
    return read_decoded_fp8(reader, parameter, encoded->tensor_numels.front(), begin, destination);
  }
  constexpr std::int64_t kAtOnce = 1024 * kNf4GroupElements;
  const std::int64_t end = begin + destination.numel();
  std::int64_t tensor_begin = 0;
  std::int64_t first_group = 0;
  for (const std::int64_t numel : encoded->tensor_numels) {
    const std::int64_t stop = std::min(end, tensor_begin + numel);
    for (std::int64_t next = std::max(begin, tensor_begin); next < stop; next += kAtOnce) {
      const std::int64_t last = std::min(next + kAtOnce, stop);
      destination.narrow(0, next - begin, last - next)
          .copy_(decode_elements(reader, parameter, numel, first_group, next - tensor_begin,
                                 last - tensor_begin));
    }
    tensor_begin += numel;
    first_group += num_nf4_groups(numel);
  }
}

void read_weight(ShardReader& reader, const ShardView& shard) {
  check_shape(reader, shard);
  if (shard.numel == 0) return;
  if (shard.encoded_ranges.empty()) {
    read_decoded(reader, shard.parameter, shard.begin, shard.weight);
    return;
  }
  const EncodedShape* encoded = find_encoded(reader, shard.parameter);
  if (encoded != nullptr && has_tensors(*encoded, shard)) {
    reader.read("weight", shard.parameter, shard.begin, shard.weight);
  } else {
    encode(reader, shard);
  }
}

}  // namespace packtrain
