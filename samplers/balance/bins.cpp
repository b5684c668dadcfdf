#include "samplers/balance/bins.h"

#include <algorithm>

namespace packtrain {

double Bins::slowest(int m) const {
  double slowest = 0;
  for (const Bin& bin : micro_batch(m)) slowest = std::max(slowest, bin.cost);
  return slowest;
}

double Bins::total() const {
  double total = 0;
  for (int m = 0; m < num_micro_batches; ++m) total += slowest(m);
  return total;
}

void Bins::group_by_cost() {
  std::ranges::stable_sort(bins, std::ranges::greater{}, &Bin::cost);
}

}  // namespace packtrain
