// Local search among full bins, where what comes must be no longer than what goes.
#pragma once

#include <cstddef>
#include <vector>

#include "samplers/balance/bins.h"
#include "samplers/balance/bundles.h"
#include "samplers/balance/time_order.h"

namespace packtrain {

// The slowest bin of a micro-batch trades one or two of its items for one or two of a lighter bin
// of about as many tokens but less cost: attention costs more in one long example than in two that
// are half as long. Goes on until nothing helps or the micro-batch is within 0.1 % of its mean.
// ExchangeSearch chooses by cost first, which in full bins hardly ever fits; this one by tokens.
// Never raises bins.total() and never exceeds the budget.
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
  double total_ = 0;                          // of their times
  std::vector<std::vector<Bundle>> bundles_;  // [bins] ascending tokens; empty: to be listed
  Trade best_;
};

}  // namespace packtrain
