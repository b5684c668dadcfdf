#include "collators/batch_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "collators/adapter_rows.h"
#include "collators/group_arrays.h"
#include "collators/piece_view.h"
#include "collators/row_seeds.h"
#include "framework/core/error.h"
#include "samplers/statistics.h"

namespace packtrain {
namespace {

constexpr std::size_t kAlignment = 256;

// Sizes of a batch's arrays. They are computed before any array is written.
struct Shape {
  std::size_t num_rows = 0;
  std::size_t num_segments = 0;  // the dummy sequence included
  std::size_t num_loss_tokens = 0;
  std::size_t num_loss_sources = 0;   // num_loss_tokens, or 0
  std::size_t num_token_weights = 0;  // num_loss_tokens, or 0
  std::size_t num_row_seeds = 0;      // num_rows, or 0
  std::size_t num_sample_seeds = 0;   // num_loss_tokens, or 0
  std::size_t num_pieces = 0;
  std::size_t num_adapter_rows = 0;  // adapters and 1, or 0
  GroupShape groups = {};
  std::int64_t num_real_tokens = 0;
};

Shape shape_of(std::span<const PieceView> views, std::span<const SegmentRun> segments,
               std::size_t num_parts, const CollatorOptions& options) {
  Shape shape{.num_segments = segments.size(), .num_pieces = views.size()};
  for (const PieceView& view : views) {
    shape.num_real_tokens += static_cast<std::int64_t>(view.length());
    shape.num_loss_tokens += view.num_labels();
  }
  shape.num_loss_sources = options.sources ? shape.num_loss_tokens : 0;
  const bool has_weights = std::ranges::any_of(views, &PieceView::has_token_weights);
  shape.num_token_weights = has_weights ? shape.num_loss_tokens : 0;
  std::int64_t used = 0;
  for (const SegmentRun& run : segments) used += run.rows.size();
  const std::int64_t rows = num_rows(used, options.row_multiple);
  if (rows > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("collator: a batch of {} rows cannot be numbered in 32 bits", rows));
  }
  shape.num_rows = static_cast<std::size_t>(rows);
  shape.num_row_seeds = options.row_seeds ? shape.num_rows : 0;
  shape.num_sample_seeds = options.sample_seeds ? shape.num_loss_tokens : 0;
  shape.num_adapter_rows = num_parts == 0 ? 0 : num_parts + 1;
  if (rows > used) ++shape.num_segments;
  return shape;
}

// Places the arrays one after another in the buffer. A null buffer only measures the size.
class Layout {
 public:
  explicit Layout(std::span<std::byte> bytes) : bytes_(bytes) {}

  template <typename T>
  void place(std::span<T>& array, std::size_t count) {
    if (!bytes_.empty()) {
      array = {reinterpret_cast<T*>(bytes_.subspan(used_, count * sizeof(T)).data()), count};
    }
    used_ = (used_ + count * sizeof(T) + kAlignment - 1) / kAlignment * kAlignment;
  }
  std::size_t used() const { return used_; }

 private:
  std::span<std::byte> bytes_;
  std::size_t used_ = 0;
};

std::size_t lay_out(PackedBatch& batch, const Shape& shape, std::span<std::byte> bytes) {
  Layout layout(bytes);
  layout.place(batch.input_ids, shape.num_rows);
  layout.place(batch.labels, shape.num_rows);
  layout.place(batch.position_ids, shape.num_rows);
  layout.place(batch.cu_seqlens, shape.num_segments + 1);
  layout.place(batch.loss_index, shape.num_loss_tokens);
  layout.place(batch.loss_weight, shape.num_loss_tokens);
  layout.place(batch.loss_source, shape.num_loss_sources);
  layout.place(batch.token_weight, shape.num_token_weights);
  layout.place(batch.row_seeds, shape.num_row_seeds);
  layout.place(batch.sample_seeds, shape.num_sample_seeds);
  layout.place(batch.examples, 2 * shape.num_pieces);
  layout.place(batch.adapter_rows, shape.num_adapter_rows);
  layout.place(batch.adapter_loss_rows, shape.num_adapter_rows);
  layout.place(batch.group_num_rows, shape.groups.num_examples);
  layout.place(batch.group_roles, shape.groups.num_examples);
  layout.place(batch.group_weights, shape.groups.num_examples);
  layout.place(batch.group_margins, shape.groups.num_margins);
  layout.place(batch.reference, shape.groups.num_reference);
  layout.place(batch.token_columns, shape.groups.num_columns);
  return layout.used();
}

PackedBatch allocate_batch(const Shape& shape, const HostAllocator& allocate) {
  PackedBatch batch;
  const std::size_t size = lay_out(batch, shape, {});
  if (allocate) {
    batch.bytes = allocate(size);
    if (batch.bytes.size() < size) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("collator: asked for {} bytes of host memory, got {}", size,
                              batch.bytes.size()));
    }
    batch.bytes = batch.bytes.first(size);
  } else {
    batch.storage.resize(size);
    batch.bytes = batch.storage;
  }
  lay_out(batch, shape, batch.bytes);
  batch.num_real_tokens = shape.num_real_tokens;
  return batch;
}

// The sum of mask weights over the trained labels of the piece's example.
double example_label_weight(const TokenStore& store, const Piece& piece, const PieceView& view,
                            LabelWeights& label_weights) {
  // A whole or truncated example is one piece and trains that piece's labels. A split example
  // trains all of its labels, in several pieces.
  const bool only_piece = (piece.begin == 0 || piece.after_prefix) && !piece.continues;
  return only_piece ? view.label_weight() : label_weights.of(store, piece.example);
}

// The factor of the piece's labels, without the weight of their mask bytes.
double weight_of(const TokenStore& store, const Piece& piece, const PieceView& view,
                 const LossNormalization& normalization, LabelWeights& label_weights) {
  const double weight = store.loss_weights().of(piece.example);
  const double denominator = normalization.denominator_of(piece.example);
  if (normalization.mode == Normalize::kTokens) return weight / denominator;
  return weight / (denominator * example_label_weight(store, piece, view, label_weights));
}

// Fills the arrays front to back.
class Writer {
 public:
  explicit Writer(PackedBatch& batch) : batch_(batch) {}

  std::size_t rows_left() const { return batch_.input_ids.size() - row_; }

  // Starts a segment. The next rows that are written belong to it.
  void begin_segment(const AttentionSegment& segment) {
    if (!segment.is_sequence()) {
      batch_.prefixes.push_back(
          {static_cast<std::int64_t>(segment_), {segment.prefix.begin(), segment.prefix.end()}});
    }
    batch_.cu_seqlens[segment_++] = static_cast<std::int32_t>(row_);
    batch_.max_seqlen = std::max(batch_.max_seqlen, static_cast<std::int32_t>(segment.num_keys()));
    const auto length = static_cast<std::size_t>(segment.rows.size());
    const auto positions = batch_.position_ids.subspan(row_, length);
    std::iota(positions.begin(), positions.end(), static_cast<std::int32_t>(segment.num_prefix()));
    segment_end_ = row_ + length;
  }

  // `source` is written when the batch has an array for sources. Returns false when the piece has
  // other labels than at the time of counting.
  [[nodiscard]] bool append(const PieceView& view, double weight, std::int16_t source) {
    const std::size_t loss_end = loss_token_ + view.num_labels();
    const std::size_t piece = batch_.num_piece_labels.size();
    batch_.examples[piece] = static_cast<std::int32_t>(row_);
    batch_.examples[batch_.examples.size() / 2 + piece] =
        static_cast<std::int32_t>(row_ + view.length());
    batch_.num_piece_labels.push_back(static_cast<std::int32_t>(view.num_labels()));
    if (!batch_.loss_source.empty()) {
      std::ranges::fill(batch_.loss_source.subspan(loss_token_, view.num_labels()), source);
    }
    std::ranges::copy(view.input_ids(),
                      batch_.input_ids.begin() + static_cast<std::ptrdiff_t>(row_));
    for (std::size_t t = 0; t < view.length(); ++t, ++row_) {
      const std::int32_t label = view.label(t);
      batch_.labels[row_] = label;
      if (label == kNoLabel) continue;
      if (loss_token_ == loss_end) return false;
      batch_.loss_index[loss_token_] = static_cast<std::int32_t>(row_);
      const double token_weight = view.token_weight(t);
      batch_.loss_weight[loss_token_] = static_cast<float>(weight * token_weight);
      if (!batch_.token_weight.empty()) {
        batch_.token_weight[loss_token_] = static_cast<float>(token_weight);
      }
      ++loss_token_;
    }
    return loss_token_ == loss_end;
  }

  void pad_segment() {
    const std::size_t length = segment_end_ - row_;
    std::ranges::fill(batch_.input_ids.subspan(row_, length), 0);
    std::ranges::fill(batch_.labels.subspan(row_, length), kNoLabel);
    row_ = segment_end_;
  }

  void finish() { batch_.cu_seqlens[segment_] = static_cast<std::int32_t>(row_); }

 private:
  PackedBatch& batch_;
  std::size_t row_ = 0;
  std::size_t segment_ = 0;
  std::size_t segment_end_ = 0;
  std::size_t loss_token_ = 0;
};

bool all_below(std::span<const std::int32_t> ids, std::uint32_t bound) {
  std::uint32_t largest = 0;  // compilers vectorise this plain loop; negative ids become large
  for (const std::int32_t id : ids) largest = std::max(largest, static_cast<std::uint32_t>(id));
  return largest < bound;
}

// An id outside the vocabulary would be an invalid address on the device. Every label is the id of
// another row, or of the token that follows a piece.
void check_ids(const TokenStore& store, const MicroBatch& pieces, const PackedBatch& batch) {
  const auto bound = static_cast<std::uint32_t>(store.info().vocab_size);
  const auto is_wrong = [bound](std::int32_t id) {
    return id != kNoLabel && static_cast<std::uint32_t>(id) >= bound;
  };
  if (all_below(batch.input_ids, bound) && std::ranges::none_of(batch.labels, is_wrong)) return;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const auto begin = static_cast<std::size_t>(batch.examples[i]);
    const auto end = static_cast<std::size_t>(batch.examples[pieces.size() + i]);
    for (std::size_t row = begin; row < end; ++row) {
      const bool is_id = static_cast<std::uint32_t>(batch.input_ids[row]) >= bound;
      if (!is_id && !is_wrong(batch.labels[row])) continue;
      const std::size_t token = static_cast<std::size_t>(pieces[i].begin) + row - begin;
      fail_changed(store, pieces[i],
                   fmt::format("token {} has id {}, wanted 0..{}", token + (is_id ? 0 : 1),
                               is_id ? batch.input_ids[row] : batch.labels[row],
                               store.info().vocab_size - 1));
    }
  }
}

}  // namespace

PackedBatch build_batch(const TokenStore& store, const MicroBatch& pieces,
                        std::span<const SegmentRun> segments,
                        const LossNormalization& normalization, const CollatorOptions& options,
                        const HostAllocator& allocate) {
  std::vector<PieceView> views;
  views.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    store.check_tokens(piece.example, piece.begin,
                       std::int64_t{piece.begin} + piece.length + (piece.continues ? 1 : 0));
    views.emplace_back(store, piece);
  }

  Shape shape = shape_of(views, segments, normalization.parts.size(), options);
  shape.groups = group_shape(store, pieces, shape.num_loss_tokens, options);
  PackedBatch batch = allocate_batch(shape, allocate);
  const ExampleGroups* groups = options.as_plain ? nullptr : store.groups();
  Writer writer(batch);
  LabelWeights own;
  LabelWeights& label_weights = options.label_weights == nullptr ? own : *options.label_weights;
  std::size_t next = 0;
  for (const SegmentRun& run : segments) {
    writer.begin_segment(run.segment());
    for (const std::size_t end = next + run.num_pieces; next < end; ++next) {
      const Piece& piece = pieces[next];
      const bool is_trained = groups == nullptr || is_learned(groups->role(piece.example));
      const double weight =
          is_trained ? weight_of(store, piece, views[next], normalization, label_weights) : 0;
      if (!writer.append(views[next], weight, store.source(piece.example))) {
        fail_changed(store, piece, "its mask has other labels");
      }
    }
    writer.pad_segment();
  }
  if (writer.rows_left() > 0) {
    const std::int64_t num_rows = std::ssize(batch.input_ids);
    writer.begin_segment(
        {{num_rows - static_cast<std::int64_t>(writer.rows_left()), num_rows}, {}});
    writer.pad_segment();
  }
  writer.finish();
  check_ids(store, pieces, batch);
  if (options.row_seeds) {
    fill_row_seeds(pieces, normalization.parts, *options.row_seeds, batch);
  }
  if (options.sample_seeds) {
    fill_sample_seeds(pieces, normalization.parts, *options.sample_seeds, batch);
  }
  fill_adapter_rows(pieces, normalization.parts, batch);
  fill_groups(store, pieces, normalization, options, batch);
  batch.pieces = pieces;
  return batch;
}

}  // namespace packtrain
