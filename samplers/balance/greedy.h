// Greedy starts: items come in descending order of cost, and one rule chooses the bin of each. Each
// function needs empty bins. It returns false when no bin has space for some item; the content of
// the bins is then undefined.
#pragma once

#include "samplers/balance/bins.h"

namespace packtrain {

// Longest processing time first: chooses the bin that finishes first. On ranks of equal speed this
// is the bin of least time. Bounds hold for one micro-batch. At equal speeds the
// result is at most 4/3 of the optimum (Graham 1969). At other speeds it is less than twice the
// optimum (Gonzalez, Ibarra, Sahni 1977).
bool place_longest_first(Bins& bins);

// Chooses the bin that lengthens the step least, then the bin of least time. It fills the other
// ranks of a giant item's micro-batch before it opens another micro-batch.
bool place_least_increase(Bins& bins);

// Best fit decreasing: chooses the fullest bin by tokens that has space. It ignores cost, and finds
// space where the others fail.
bool place_best_fit(Bins& bins);

}  // namespace packtrain
