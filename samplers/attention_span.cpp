#include "samplers/attention_span.h"

namespace packtrain {

AttentionSpan attention_span(std::span<const AttentionPattern> layers) {
  AttentionSpan span;
  double num_windowed = 0;
  double num_chunked = 0;
  for (const AttentionPattern& pattern : layers) {
    num_windowed += pattern.window > 0 ? 1 : 0;
    num_chunked += pattern.chunk > 0 ? 1 : 0;
    span.window += static_cast<double>(pattern.window);
    span.chunk += static_cast<double>(pattern.chunk);
  }
  if (num_windowed > 0) {
    span.windowed_share = num_windowed / static_cast<double>(layers.size());
    span.window /= num_windowed;
  }
  if (num_chunked > 0) {
    span.chunked_share = num_chunked / static_cast<double>(layers.size());
    span.chunk /= num_chunked;
  }
  return span;
}

}  // namespace packtrain
