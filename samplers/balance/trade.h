// Local search among full bins. The bundle that enters a bin is no longer than the one that leaves.
#pragma once

#include <cstddef>
#include <vector>

#include "samplers/balance/bins.h"
#include "samplers/balance/bundles.h"
#include "samplers/balance/time_order.h"

namespace packtrain {

// The slowest bin of a micro-batch trades one or two items with a lighter bin, for items of about
// as many tokens but less cost. Attention costs more in one long example than in two of half the
// length. The search ends when no trade helps or the micro-batch is within 0.1 % of its mean.
// ExchangeSearch chooses by cost first, which hardly ever fits full bins; this search chooses by
// tokens. It never raises bins.total() and never exceeds the budget.
class TradeSearch {
 public:
  void improve(Bins& bins);

 private:
  struct Trade {
    std::size_t partner = 0;
    Bundle give;
    Bundle take;
    double gain = 0;  // of the micro-batch
  };

  bool level();
  const std::vector<Bundle>& bundles_of(std::size_t bin);
  void try_partner(std::size_t slow, std::size_t partner);

  Bins* bins_ = nullptr;
  TimeOrder by_time_;                         // the micro-batch's bins
  double total_ = 0;                          // sum of their times
  std::vector<std::vector<Bundle>> bundles_;  // [bins] ascending tokens; empty: not listed yet
  Trade best_;
};

}  // namespace packtrain
