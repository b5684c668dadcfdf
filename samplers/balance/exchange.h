// Local search: the slowest rank of a micro-batch hands cost over to lighter ranks.
#pragma once

#include "samplers/balance/bins.h"

namespace packtrain {

// Moves an item, or swaps two, between the slowest bin of a micro-batch and one of the lightest
// bins (of the same micro-batch, or of another one when that shortens the step), as long as it
// helps. Never raises bins.total() and never exceeds the budget. The number of exchanges is at most
// a small multiple of the number of bins.
void improve_by_exchange(Bins& bins);

}  // namespace packtrain
