#include "collators/collator.h"

#include "collators/flattening.h"
#include "collators/padding.h"

namespace packtrain {

Collator find_collator(Strategy strategy) {
  return traits_of(strategy).pads_to_longest ? pad_to_longest : flatten;
}

}  // namespace packtrain
