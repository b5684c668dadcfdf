#include "samplers/attention_span.h"

namespace packtrain {

AttentionSpan attention_span(std::span<const AttentionPattern> layers) {
  AttentionSpan span;
  double num_windowed = 0;
  for (const AttentionPattern& pattern : layers) {
    if (pattern.is_full()) continue;
    ++num_windowed;
    span.window += static_cast<double>(pattern.window);
  }
  if (num_windowed == 0) return span;
  span.windowed_share = num_windowed / static_cast<double>(layers.size());
  span.window /= num_windowed;
  return span;
}

}  // namespace packtrain
