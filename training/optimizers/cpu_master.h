// Masters that an update on the CPU reads and writes as float32.
#pragma once

#include <c10/util/BFloat16.h>

#include <bit>
#include <cstdint>

#include "training/optimizers/cpu_amax.h"
#include "training/optimizers/stochastic_rounding.h"
#include "training/optimizers/update_pieces.h"

namespace packtrain {

// Those of elements [begin, end) of one piece, at most 4,096.
class CpuMaster {
 public:
  CpuMaster(const PartArguments& arguments, const UpdatePiece& piece, std::int64_t begin,
            std::int64_t end)
      : a_(arguments), piece_(piece), begin_(begin), numel_(end - begin) {
    if (!is_rounded()) return;
    const auto* master = static_cast<const c10::BFloat16*>(a_.master) + begin_;
    for (std::int64_t i = 0; i < numel_; ++i) widened_[i] = static_cast<float>(master[i]);
  }
  CpuMaster(const CpuMaster&) = delete;
  CpuMaster& operator=(const CpuMaster&) = delete;

  // The first one is that of element `begin`.
  float* values() { return is_rounded() ? widened_ : static_cast<float*>(a_.master) + begin_; }

  // Call it when all values are updated. Rounds bfloat16 masters stochastically, writes the weight
  // if it has its own memory, and enters the largest magnitude of what was written.
  void write() {
    if (is_rounded()) {
      auto* master = static_cast<c10::BFloat16*>(a_.master) + begin_;
      round(master);
      enter_cpu_amax(master, numel_, a_.amax, piece_.amax);
      return;
    }
    const float* __restrict__ master = values();
    if (a_.weight == nullptr) return enter_cpu_amax(master, numel_, a_.amax, piece_.amax);
    auto* __restrict__ weight = static_cast<c10::BFloat16*>(a_.weight) + begin_;
    for (std::int64_t i = 0; i < numel_; ++i) weight[i] = static_cast<c10::BFloat16>(master[i]);
    enter_cpu_amax(weight, numel_, a_.amax, piece_.amax);
  }

 private:
  static constexpr std::int64_t kMaxElements = 4096;

  bool is_rounded() const { return a_.master_dtype == DataType::kBFloat16; }

  void round(c10::BFloat16* to) const {
    const std::int64_t first = begin_ + piece_.element_offset;
    RandomWords random{};
    for (std::int64_t i = 0; i < numel_; ++i) {
      const std::int64_t element = first + i;
      if (i == 0 || element % 8 == 0) random = master_random(a_.seed, a_.step, element / 8);
      to[i].x = round_stochastically(std::bit_cast<std::uint32_t>(widened_[i]),
                                     master_bits(random, element % 8));
    }
  }

  const PartArguments& a_;
  const UpdatePiece& piece_;
  std::int64_t begin_;
  std::int64_t numel_;
  float widened_[kMaxElements];  // unused for float32 masters
};

}  // namespace packtrain
