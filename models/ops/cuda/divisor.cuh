// Division of indices by a number that only the launch knows: a multiplication.
#pragma once

#include <cstdint>

namespace packtrain::device {

// Exact for n below 2^64 / divisor^2 or so: n e < 2^64 with e < divisor the rounding of the
// reciprocal (Granlund and Montgomery, "Division by Invariant Integers", PLDI 1994). Indices of a
// tensor in memory, below 2^40, by rows of less than 2^24 runs are far inside.
class Divisor {
 public:
  explicit Divisor(std::int64_t divisor)
      : reciprocal_(~std::uint64_t{0} / static_cast<std::uint64_t>(divisor) + 1),
        is_one_(divisor == 1) {}

  __device__ std::int64_t quotient(std::int64_t n) const {
    if (is_one_) return n;  // its reciprocal, 2^64, does not fit
    return static_cast<std::int64_t>(__umul64hi(static_cast<std::uint64_t>(n), reciprocal_));
  }

 private:
  std::uint64_t reciprocal_;
  bool is_one_;
};

}  // namespace packtrain::device
