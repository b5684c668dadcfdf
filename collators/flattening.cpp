#include "collators/flattening.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "framework/support/error.h"
#include "samplers/statistics.h"

namespace packtrain {
namespace {

constexpr std::size_t kAlignment = 256;

// What a batch needs room for, known before anything is written.
struct Shape {
  std::size_t num_rows = 0;
  std::size_t num_sequences = 0;  // the dummy sequence included
  std::size_t num_loss_tokens = 0;
  std::int64_t num_real_tokens = 0;
};

// A piece's tokens and labels, checked against its example.
class PieceView {
 public:
  PieceView(const TokenStore& store, const Piece& piece)
      : length_(static_cast<std::size_t>(piece.length)) {
    const auto ids = store.input_ids(piece.example);
    const std::int64_t end = std::int64_t{piece.begin} + piece.length + (piece.continues ? 1 : 0);
    if (piece.begin < 0 || piece.length < 1 || end > std::ssize(ids)) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("flatten: piece [{}, {}) of example {} is not inside its {} tokens",
                              piece.begin, end, piece.example, ids.size()));
    }
    const auto begin = static_cast<std::size_t>(piece.begin);
    const auto count = static_cast<std::size_t>(end) - begin;
    ids_ = ids.subspan(begin, count);
    mask_ = store.loss_mask(piece.example).subspan(begin, count);
  }

  std::size_t length() const { return length_; }
  std::span<const std::int32_t> input_ids() const { return ids_.first(length_); }
  std::int32_t label(std::size_t row) const {
    return row + 1 < ids_.size() && mask_[row + 1] != 0 ? ids_[row + 1] : kNoLabel;
  }
  std::size_t num_labels() const {
    return mask_.size() - 1 -
           static_cast<std::size_t>(std::ranges::count(mask_.subspan(1), std::uint8_t{0}));
  }

 private:
  std::size_t length_;
  // With one token more than the piece where it continues: the last row's label.
  std::span<const std::int32_t> ids_;
  std::span<const std::uint8_t> mask_;
};

Shape shape_of(std::span<const PieceView> views, std::int64_t row_multiple) {
  Shape shape{.num_sequences = views.size()};
  for (const PieceView& view : views) {
    shape.num_real_tokens += static_cast<std::int64_t>(view.length());
    shape.num_loss_tokens += view.num_labels();
  }
  const std::int64_t rows = num_rows(shape.num_real_tokens, row_multiple);
  if (rows > std::numeric_limits<std::int32_t>::max()) {
    throw Error(ErrorCategory::kInternal,
                fmt::format("flatten: a batch of {} rows cannot be numbered in 32 bits", rows));
  }
  shape.num_rows = static_cast<std::size_t>(rows);
  if (rows > shape.num_real_tokens) ++shape.num_sequences;
  return shape;
}

// Hands out the buffer's arrays one after another; with a null buffer it only measures.
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
  layout.place(batch.cu_seqlens, shape.num_sequences + 1);
  layout.place(batch.loss_index, shape.num_loss_tokens);
  layout.place(batch.loss_weight, shape.num_loss_tokens);
  return layout.used();
}

PackedBatch allocate_batch(const Shape& shape, const HostAllocator& allocate) {
  PackedBatch batch;
  const std::size_t size = lay_out(batch, shape, {});
  if (allocate) {
    batch.bytes = allocate(size);
    if (batch.bytes.size() < size) {
      throw Error(ErrorCategory::kInternal,
                  fmt::format("flatten: asked for {} bytes of host memory, got {}", size,
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

float weight_of(const TokenStore& store, const Piece& piece, const PieceView& view,
                const LossNormalization& normalization) {
  if (normalization.mode == Normalize::kTokens) {
    return static_cast<float>(1.0 / static_cast<double>(normalization.num_loss_tokens));
  }
  // A whole or truncated example is one piece and trains that piece's labels; a split one trains
  // all of its labels, in several pieces.
  const bool only_piece = piece.begin == 0 && !piece.continues;
  const auto labels =
      only_piece
          ? static_cast<double>(view.num_labels())
          : static_cast<double>(store.num_loss_tokens()[static_cast<std::size_t>(piece.example)]);
  return static_cast<float>(1.0 / (static_cast<double>(normalization.num_examples) * labels));
}

// Where the next piece goes.
struct Cursor {
  std::size_t row = 0;
  std::size_t sequence = 0;
  std::size_t loss_token = 0;
};

void begin_sequence(PackedBatch& batch, Cursor& cursor, std::size_t length) {
  batch.cu_seqlens[cursor.sequence++] = static_cast<std::int32_t>(cursor.row);
  batch.max_seqlen = std::max(batch.max_seqlen, static_cast<std::int32_t>(length));
  const auto positions = batch.position_ids.subspan(cursor.row, length);
  std::iota(positions.begin(), positions.end(), 0);
}

void append(PackedBatch& batch, Cursor& cursor, const PieceView& view, float weight) {
  begin_sequence(batch, cursor, view.length());
  std::ranges::copy(view.input_ids(),
                    batch.input_ids.begin() + static_cast<std::ptrdiff_t>(cursor.row));
  for (std::size_t t = 0; t < view.length(); ++t, ++cursor.row) {
    const std::int32_t label = view.label(t);
    batch.labels[cursor.row] = label;
    if (label == kNoLabel) continue;
    batch.loss_index[cursor.loss_token] = static_cast<std::int32_t>(cursor.row);
    batch.loss_weight[cursor.loss_token] = weight;
    ++cursor.loss_token;
  }
}

void append_dummy(PackedBatch& batch, Cursor& cursor) {
  const std::size_t length = batch.input_ids.size() - cursor.row;
  if (length == 0) return;
  begin_sequence(batch, cursor, length);
  std::ranges::fill(batch.input_ids.last(length), 0);
  std::ranges::fill(batch.labels.last(length), kNoLabel);
  cursor.row += length;
}

}  // namespace

PackedBatch flatten(const TokenStore& store, const MicroBatch& pieces,
                    const LossNormalization& normalization, const FlatteningOptions& options,
                    const HostAllocator& allocate) {
  std::vector<PieceView> views;
  views.reserve(pieces.size());
  for (const Piece& piece : pieces) views.emplace_back(store, piece);

  PackedBatch batch = allocate_batch(shape_of(views, options.row_multiple), allocate);
  Cursor cursor;
  for (std::size_t i = 0; i < views.size(); ++i) {
    append(batch, cursor, views[i], weight_of(store, pieces[i], views[i], normalization));
  }
  append_dummy(batch, cursor);
  batch.cu_seqlens.back() = static_cast<std::int32_t>(cursor.row);
  batch.pieces = pieces;
  return batch;
}

std::vector<std::int32_t> boundaries_from_position_ids(std::span<const std::int32_t> position_ids) {
  if (!position_ids.empty() && position_ids.front() != 0) {
    throw Error(ErrorCategory::kData, fmt::format("position_ids start with {}, a sequence starts "
                                                  "with 0",
                                                  position_ids.front()));
  }
  std::vector<std::int32_t> boundaries;
  for (std::size_t row = 0; row < position_ids.size(); ++row) {
    if (position_ids[row] == 0) boundaries.push_back(static_cast<std::int32_t>(row));
  }
  boundaries.push_back(static_cast<std::int32_t>(position_ids.size()));
  return boundaries;
}

}  // namespace packtrain
