// Times a collective alone, and while matrix products run at the same time.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <functional>

#include "parallel/communicators/world.h"

namespace packtrain {

using Collective = std::function<void(void* stream)>;

struct CollectiveTiming {
  double isolated_ms = 0;
  double overlapped_ms = 0;  // of a collective while products run without a pause
  double slow_down = 1;      // of the products while collectives run without a pause
  // The cost of one collective that is hidden by products: the time that they lose to it.
  double lost_ms() const { return overlapped_ms * (1 - 1 / slow_down); }
};

class CollectiveBenchmark {
 public:
  explicit CollectiveBenchmark(World& world);

  // Collective. The medians of rank 0.
  double isolated_ms(const Collective& collective);
  CollectiveTiming run(const Collective& collective);
  double product_ms() const { return product_ms_; }

 private:
  struct Times {
    double product_ms = 0;
    double collective_ms = 0;
  };
  void multiply();
  Times together(const Collective& collective, int num_products, int num_collectives);
  double agreed(double value);

  World& world_;
  c10::Stream compute_;
  c10::Stream communication_;
  at::Tensor a_;
  at::Tensor b_;
  at::Tensor c_;
  double product_ms_ = 0;
};

}  // namespace packtrain
