#include "models/ops/dropout/dropout.h"

#include <ATen/Dispatch.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_like.h>

#include "models/ops/dropout/dropout_bits.h"

namespace packtrain {
namespace {

template <class Value>
void drop_row(const Value* x, Value* y, std::int64_t width, std::uint32_t row_seed,
              const DropoutMask& mask) {
  const std::uint32_t threshold = dropout_threshold(mask.probability);
  const auto scale = static_cast<float>(1 / (1 - mask.probability));
  std::uint64_t bits = 0;
  for (std::int64_t c = 0; c < width; ++c) {
    const auto element = static_cast<int>(c % kDropoutGroup);
    if (element == 0) {
      bits = dropout_bits(mask.key, row_seed, static_cast<std::uint32_t>(c / kDropoutGroup));
    }
    const bool keeps = dropout_keeps(bits, element, threshold);
    y[c] = keeps ? static_cast<Value>(static_cast<float>(x[c]) * scale) : Value(0);
  }
}

}  // namespace

at::Tensor dropout(const at::Tensor& x, const DropoutMask& mask) {
  const at::Tensor in = x.contiguous();
  if (in.is_cuda()) return dropout_cuda(in, mask);
  at::Tensor y = at::empty_like(in);
  const auto* seeds = mask.row_seeds.const_data_ptr<std::int32_t>();
  const std::int64_t width = in.size(1);
  AT_DISPATCH_FLOATING_TYPES_AND(at::kBFloat16, in.scalar_type(), "dropout", [&] {
    const auto* from = in.const_data_ptr<scalar_t>();
    auto* to = y.data_ptr<scalar_t>();
    at::parallel_for(0, in.size(0), /*grain_size=*/16, [&](auto first, auto last) {
      for (std::int64_t t = first; t < last; ++t) {
        drop_row(from + t * width, to + t * width, width, static_cast<std::uint32_t>(seeds[t]),
                 mask);
      }
    });
  });
  return y;
}

}  // namespace packtrain
