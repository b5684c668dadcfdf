#include <c10/util/BFloat16.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "training/optimizers/adamw8_arguments.h"
#include "training/optimizers/cpu_master.h"

namespace packtrain {
namespace {

constexpr DynamicMap kFirstMap = dynamic_map(/*has_sign=*/true);
constexpr DynamicMap kSecondMap = dynamic_map(/*has_sign=*/false);
constexpr CodeTable kFirstCodes = code_table(/*has_sign=*/true);
constexpr CodeTable kSecondCodes = code_table(/*has_sign=*/false);

template <bool HasSign>
void store_codes(const CodedMoment& moment, const CodeTable& table, std::int64_t begin,
                 std::int64_t end, const float* values) {
  float largest = 0;
  for (std::int64_t i = 0; i < end - begin; ++i) largest = std::max(largest, std::abs(values[i]));
  moment.largest[begin / kMomentBlock] = largest;
  const float inverse = largest > 0 ? 1 / largest : 0;
  for (std::int64_t i = 0; i < end - begin; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(values[i] * inverse);
    moment.codes[begin + i] = code_of_bits<HasSign>(table, bits);
  }
}

template <typename Gradient>
void update_block8(const AdamW8Arguments& a, const UpdatePiece& piece, std::int64_t begin,
                   std::int64_t end) {
  const float clip = *a.clip_factor;
  const float first_largest = a.first.largest[begin / kMomentBlock];
  const float second_largest = a.second.largest[begin / kMomentBlock];
  const auto* grad = static_cast<const Gradient*>(a.grad);
  float first[kMomentBlock];
  float second[kMomentBlock];
  CpuMaster masters(a, piece, begin, end);
  float* master = masters.values();
  for (std::int64_t i = begin; i < end; ++i) {
    const float g = clip * static_cast<float>(grad[i]);
    const float m = a.beta1 * kFirstMap[a.first.codes[i]] * first_largest + a.one_minus_beta1 * g;
    const float v =
        a.beta2 * kSecondMap[a.second.codes[i]] * second_largest + a.one_minus_beta2 * g * g;
    first[i - begin] = m;
    second[i - begin] = v;
    float& w = master[i - begin];
    w = w * piece.decay - a.step_size * m / (std::sqrt(v) * a.inverse_root_bias2 + a.epsilon);
  }
  store_codes<true>(a.first, kFirstCodes, begin, end, first);
  store_codes<false>(a.second, kSecondCodes, begin, end, second);
  masters.write();
}

}  // namespace

void adamw8_cpu_range(const AdamW8Arguments& a, const UpdatePiece& piece, std::int64_t begin,
                      std::int64_t end) {
  for (std::int64_t i = begin; i < end; i += kMomentBlock) {
    const std::int64_t stop = std::min(i + kMomentBlock, end);
    if (a.grad_dtype == DataType::kBFloat16) {
      update_block8<c10::BFloat16>(a, piece, i, stop);
    } else {
      update_block8<float>(a, piece, i, stop);
    }
  }
}

}  // namespace packtrain
