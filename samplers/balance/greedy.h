// Greedy starts: items in descending order of cost, each into the bin that looks best by one rule.
// Each wants empty bins and returns false when some item found no bin with room; the bins are then
// useless.
#pragma once

#include "samplers/balance/bins.h"

namespace packtrain {

// Longest processing time first: into the bin that is done first with it (on ranks alike: the bin
// of least time). At most 4/3 of the best for one micro-batch on ranks alike (Graham 1969), less
// than twice the best on others (Gonzalez, Ibarra, Sahni 1977).
bool place_longest_first(Bins& bins);

// Into the bin that lengthens the step least, then the bin of least time: fills the ranks beside a
// giant item before it opens another micro-batch.
bool place_least_increase(Bins& bins);

// Best fit decreasing: into the fullest bin by tokens that has room. Ignores cost; finds room where
// the others fail.
bool place_best_fit(Bins& bins);

}  // namespace packtrain
