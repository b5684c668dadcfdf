// Times calls on the GPU with events.
#pragma once

#include <c10/core/Stream.h>

#include <vector>

#include "benchmarks/ops/op_benchmark.h"

namespace packtrain {

struct Timing {
  double median_us = 0;
  double spread = 0;  // half the distance from the 10th to the 90th percentile, over the median
};

class Timer {
 public:
  Timer();

  // The operators alternate, sample by sample, so that all run at the same clocks. For each one,
  // calls with their own inputs alternate. Their number makes `bytes_per_call` exceed the L2
  // several times.
  std::vector<Timing> time(const std::vector<MakeCall>& operators, double bytes_per_call);
  // Bytes read and written a second by a device-to-device copy of 1 GiB.
  double copy_bandwidth();

 private:
  struct Rotation {
    std::vector<Call> calls;
    std::size_t next = 0;
    int calls_per_sample = 1;
  };

  double sample_us(Rotation& rotation);

  c10::Stream stream_;
  at::Tensor copied_;
  at::Tensor copy_;
};

}  // namespace packtrain
