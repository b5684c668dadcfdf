// Division of an index by a run-time constant, as a multiplication by its reciprocal.
#pragma once

#include <cstdint>

namespace packtrain::device {

// Exact for n below about 2^64 / divisor^2. There n e < 2^64, where e < divisor is the rounding
// error of the reciprocal (Granlund and Montgomery, "Division by Invariant Integers", PLDI 1994).
// Indices are below 2^40 and rows have less than 2^24 vectors, far below this bound.
class Divisor {
 public:
  explicit Divisor(std::int64_t divisor)
      : reciprocal_(~std::uint64_t{0} / static_cast<std::uint64_t>(divisor) + 1),
        is_one_(divisor == 1) {}

  __device__ std::int64_t quotient(std::int64_t n) const {
    if (is_one_) return n;  // 2^64 as a reciprocal does not fit
    return static_cast<std::int64_t>(__umul64hi(static_cast<std::uint64_t>(n), reciprocal_));
  }

 private:
  std::uint64_t reciprocal_;
  bool is_one_;
};

}  // namespace packtrain::device
