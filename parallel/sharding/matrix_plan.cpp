#include "parallel/sharding/matrix_plan.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <tuple>
#include <utility>

#include "parallel/sharding/owned_layout.h"

namespace packtrain {
namespace {

double cost_of(const PlacedMatrix& placed) {
  return orthogonalisation_cost(placed.matrix.rows, placed.matrix.columns);
}

std::vector<PlacedMatrix> matrices_of_unit(const Unit& unit, int number,
                                           const IsOrthogonalised& choose) {
  std::vector<PlacedMatrix> matrices;
  for (std::size_t part = 0; part < unit.trainable_parts().size(); ++part) {
    const std::vector<Segment>& segments = unit.parts[part].layout.segments;
    for (std::size_t segment = 0; segment < segments.size(); ++segment) {
      if (!choose(segments[segment].spec)) continue;
      for (const ParameterMatrix& matrix : parameter_matrices(segments[segment].spec)) {
        matrices.push_back({number, part, segment, matrix});
      }
    }
  }
  return matrices;
}

// The elements of a matrix that a rank of a shard group owns. `from` is in the rank's shard of the
// part, `to` is in the matrix.
MatrixCopy owned_elements(const UnitTable& table, const PlacedMatrix& placed, int rank) {
  const FlatLayout& layout = table.units[placed.unit].parts[placed.part].layout;
  const OwnedRange owned = owned_range(layout, layout.segments[placed.segment], rank);
  const std::int64_t begin = std::max(owned.parameter_begin, placed.matrix.begin);
  const std::int64_t end =
      std::min(owned.parameter_begin + owned.numel, placed.matrix.begin + placed.matrix.numel());
  if (begin >= end) return {};
  return {owned.shard_begin + begin - owned.parameter_begin, begin - placed.matrix.begin,
          end - begin};
}

// Joins copies that continue each other.
void add_copy(std::vector<MatrixCopy>& copies, std::size_t first, const MatrixCopy& copy) {
  if (copy.numel == 0) return;
  const bool may_join = copies.size() > first;
  if (may_join && copies.back().from + copies.back().numel == copy.from &&
      copies.back().to + copies.back().numel == copy.to) {
    copies.back().numel += copy.numel;
  } else {
    copies.push_back(copy);
  }
}

void add_batch(std::vector<MatrixBatch>& batches, const ParameterMatrix& matrix) {
  if (!batches.empty() && batches.back().rows == matrix.rows &&
      batches.back().columns == matrix.columns) {
    ++batches.back().count;
    return;
  }
  const MatrixBatch last = batches.empty() ? MatrixBatch{} : batches.back();
  batches.push_back(
      {last.begin + last.count * last.rows * last.columns, 1, matrix.rows, matrix.columns});
}

// By units, owners and shapes.
std::vector<PlacedMatrix> in_exchange_order(std::vector<PlacedMatrix> matrices) {
  std::ranges::stable_sort(matrices, {}, [](const PlacedMatrix& placed) {
    return std::tuple(placed.unit, placed.owner, placed.matrix.rows, placed.matrix.columns);
  });
  return matrices;
}

// The ranges of the units that have matrices.
std::vector<std::pair<std::size_t, std::size_t>> unit_ranges(
    const std::vector<PlacedMatrix>& ordered) {
  std::vector<std::pair<std::size_t, std::size_t>> ranges;
  for (std::size_t begin = 0; begin < ordered.size();) {
    std::size_t end = begin;
    while (end < ordered.size() && ordered[end].unit == ordered[begin].unit) ++end;
    ranges.emplace_back(begin, end);
    begin = end;
  }
  return ranges;
}

class BucketMaker {
 public:
  BucketMaker(const UnitTable& table, const ProcessMesh& mesh)
      : table_(table), mesh_(mesh), owned_(make_owned_layout(table)) {}

  // `matrices`: those of one unit in the order of owners and shapes.
  ExchangeBucket make(std::span<const PlacedMatrix> matrices) const {
    ExchangeBucket bucket;
    bucket.unit = matrices.front().unit;
    bucket.send_counts.assign(static_cast<std::size_t>(mesh_.shard.size), 0);
    bucket.receive_counts = bucket.send_counts;
    bucket.exchanges =
        mesh_.shard.size > 1 && std::ranges::any_of(matrices, [&](const PlacedMatrix& matrix) {
          return matrix.owner / mesh_.shard.size == mesh_.replicate.rank;
        });
    add_outgoing(matrices, bucket);
    add_incoming(matrices, bucket);
    return bucket;
  }

 private:
  void add_outgoing(std::span<const PlacedMatrix> matrices, ExchangeBucket& bucket) const {
    std::int64_t end = 0;
    std::size_t m = 0;
    for (int replica = 0; replica < mesh_.replicate.size; ++replica) {
      const bool is_own = replica == mesh_.replicate.rank;
      const std::size_t first = bucket.elements.size();
      bucket.section_begin.push_back(end);
      if (is_own) bucket.first_own = first;
      for (; m < matrices.size() && matrices[m].owner / mesh_.shard.size == replica; ++m) {
        MatrixCopy copy = owned_elements(table_, matrices[m], mesh_.shard.rank);
        copy.from += owned_.parts[bucket.unit][matrices[m].part].state_begin;
        copy.to = end;
        add_copy(bucket.elements, first, copy);
        end += copy.numel;
        const auto shard = static_cast<std::size_t>(matrices[m].owner % mesh_.shard.size);
        if (is_own) bucket.send_counts[shard] += static_cast<std::size_t>(copy.numel);
      }
      if (is_own) bucket.end_own = bucket.elements.size();
    }
    bucket.section_begin.push_back(end);
  }

  void add_incoming(std::span<const PlacedMatrix> matrices, ExchangeBucket& bucket) const {
    const int self = mesh_.replicate.rank * mesh_.shard.size + mesh_.shard.rank;
    std::vector<const PlacedMatrix*> own;
    for (const PlacedMatrix& matrix : matrices) {
      if (matrix.owner != self) continue;
      own.push_back(&matrix);
      add_batch(bucket.batches, matrix.matrix);
    }
    std::int64_t end = 0;
    for (int rank = 0; rank < mesh_.shard.size; ++rank) {
      std::int64_t begin = 0;  // of the matrix
      for (const PlacedMatrix* matrix : own) {
        const MatrixCopy owned = owned_elements(table_, *matrix, rank);
        add_copy(bucket.placed, 0, {end, begin + owned.to, owned.numel});
        end += owned.numel;
        begin += matrix->matrix.numel();
        bucket.receive_counts[static_cast<std::size_t>(rank)] +=
            static_cast<std::size_t>(owned.numel);
      }
    }
  }

  const UnitTable& table_;
  const ProcessMesh& mesh_;
  OwnedLayout owned_;
};

}  // namespace

// X X^T, its square, and their product with X.
double orthogonalisation_cost(std::int64_t rows, std::int64_t columns) {
  const auto less = static_cast<double>(std::min(rows, columns));
  const auto more = static_cast<double>(std::max(rows, columns));
  return 4 * less * less * more + 2 * less * less * less;
}

std::vector<PlacedMatrix> place_matrices(const UnitTable& table, const IsOrthogonalised& choose,
                                         int num_ranks) {
  std::vector<PlacedMatrix> all;
  using Load = std::pair<double, int>;  // cost so far, rank
  std::priority_queue<Load, std::vector<Load>, std::greater<>> least;
  for (int rank = 0; rank < num_ranks; ++rank) least.emplace(0, rank);
  for (int unit = 0; unit < static_cast<int>(table.units.size()); ++unit) {
    std::vector<PlacedMatrix> matrices = matrices_of_unit(table.units[unit], unit, choose);
    std::ranges::stable_sort(matrices, std::greater(), cost_of);
    for (PlacedMatrix& matrix : matrices) {
      const auto [cost, rank] = least.top();
      least.pop();
      matrix.owner = rank;
      least.emplace(cost + cost_of(matrix), rank);
    }
    all.insert(all.end(), matrices.begin(), matrices.end());
  }
  return all;
}

std::int64_t ExchangeBucket::incoming_numel() const {
  return static_cast<std::int64_t>(
      std::accumulate(receive_counts.begin(), receive_counts.end(), std::size_t{0}));
}

std::vector<ExchangeBucket> exchange_buckets(const UnitTable& table,
                                             const std::vector<PlacedMatrix>& matrices,
                                             const ProcessMesh& mesh) {
  const std::vector<PlacedMatrix> ordered = in_exchange_order(matrices);
  const BucketMaker maker(table, mesh);
  std::vector<ExchangeBucket> buckets;
  for (const auto& [begin, end] : unit_ranges(ordered)) {
    buckets.push_back(maker.make(std::span(ordered).subspan(begin, end - begin)));
  }
  return buckets;
}

// A rank's shard is the same in each replica, and so is the number of elements that it sends.
ExchangeLoads::ExchangeLoads(const UnitTable& table, const std::vector<PlacedMatrix>& matrices,
                             int shard_size)
    : ordered_(in_exchange_order(matrices)), units_(unit_ranges(ordered_)) {
  for (int rank = 0; rank < shard_size; ++rank) {
    std::vector<std::int64_t>& outgoing = outgoing_.emplace_back();
    for (const auto& [begin, end] : units_) {
      std::int64_t numel = 0;
      for (std::size_t m = begin; m < end; ++m) {
        numel += owned_elements(table, ordered_[m], rank).numel;
      }
      outgoing.push_back(numel);
    }
  }
}

std::vector<ExchangeLoad> ExchangeLoads::of(int rank) const {
  const std::vector<std::int64_t>& outgoing = outgoing_[rank % outgoing_.size()];
  std::vector<ExchangeLoad> loads;
  for (std::size_t u = 0; u < units_.size(); ++u) {
    ExchangeLoad& load = loads.emplace_back();
    load.outgoing_numel = outgoing[u];
    const auto& [begin, end] = units_[u];
    for (const PlacedMatrix& own : std::ranges::equal_range(
             std::span(ordered_).subspan(begin, end - begin), rank, {}, &PlacedMatrix::owner)) {
      load.incoming_numel += own.matrix.numel();
      add_batch(load.batches, own.matrix);
    }
  }
  return loads;
}

}  // namespace packtrain
