// A model of twelve layers and the ranks that tests of memory.fit and of its times have.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/training/small_decoder.h"
#include "training/plan/memory_fit.h"

namespace packtrain {

inline constexpr std::int64_t kPlenty = std::int64_t{1} << 50;

inline DecoderConfig twelve_layers() {
  DecoderConfig decoder = small_decoder();
  decoder.num_layers = 12;
  return decoder;
}

inline FitInput input_with(const MemoryRanks& ranks, std::int64_t limit_bytes) {
  Config config;
  config.data.max_length = 512;
  config.batch.global_batch_size = 128;
  config.batch.max_tokens_per_micro_batch = 4096;
  FitInput input{config, twelve_layers(), ranks, {limit_bytes, limit_bytes, "a test's"}, {}};
  input.work = step_work(config, nullptr, ranks.num_ranks);
  return input;
}

inline const std::vector<MemoryRanks> kLayouts = {{DeviceKind::kCpu, 1, 1},
                                                  {DeviceKind::kCuda, 1, 1},
                                                  {DeviceKind::kCuda, 2, 2},
                                                  {DeviceKind::kCuda, 8, 4}};

}  // namespace packtrain
