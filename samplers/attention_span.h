// How far a model's layers attend back, as the cost of examples needs it.
#pragma once

#include <cmath>
#include <span>

#include "framework/data/attention_pattern.h"
#include "framework/data/attention_segment.h"

namespace packtrain {

// The mean over the layers' patterns: a share of the layers has a window of tokens, and another
// share has chunks.
struct AttentionSpan {
  double windowed_share = 0.0;
  double window = 0.0;
  double chunked_share = 0.0;
  double chunk = 0.0;

  friend bool operator==(const AttentionSpan&, const AttentionSpan&) = default;
  // Twice the number of token pairs in attention over L tokens, the mean over layers; a token with
  // itself is half a pair. A full layer has L^2. A layer of window W < L has W (2 L - W), because
  // the token at position p attends to min(p + 1, W) tokens. A layer of chunks has the sum of their
  // squares. Plans depend on each bit of the result, so the order of its operations must not
  // change.
  double squares(double length) const {
    const double with_windows = squares_with_windows(length);
    if (chunked_share == 0 || length <= chunk) return with_windows;
    const double num_whole = std::floor(length / chunk);
    const double rest = length - num_whole * chunk;
    const double in_chunks = num_whole * chunk * chunk + rest * rest;
    return with_windows - chunked_share * (length * length - in_chunks);
  }
  // The same for the rows of a segment: pairs with keys of the prefix are included, pairs of the
  // prefix's own rows are not.
  double squares(const AttentionSegment& segment) const {
    if (segment.is_sequence()) return squares(static_cast<double>(segment.rows.size()));
    const auto num_prefix = static_cast<double>(segment.num_prefix());
    return squares(static_cast<double>(segment.num_keys())) - squares(num_prefix);
  }

 private:
  // Layers with chunks count as full ones.
  double squares_with_windows(double length) const {
    const double all = length * length;
    if (windowed_share == 0 || length <= window) return all;
    return (1 - windowed_share) * all + windowed_share * window * (2 * length - window);
  }
};

// `layers`: the pattern of each layer. Several windows, or chunks, give their mean.
AttentionSpan attention_span(std::span<const AttentionPattern> layers);

}  // namespace packtrain
