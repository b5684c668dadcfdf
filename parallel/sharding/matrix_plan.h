// Which rank orthogonalises which matrix, and what ranks send each other for it. A rank owns a
// range of each unit's elements, which may cut matrices. The plan depends on shapes and on the
// number of ranks alone, so all ranks make the same one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "models/block/parameter_matrices.h"
#include "parallel/communicators/process_mesh.h"
#include "parallel/sharding/unit_table.h"

namespace packtrain {

// A matrix of a trainable parameter.
struct PlacedMatrix {
  int unit = 0;
  std::size_t part = 0;
  std::size_t segment = 0;
  ParameterMatrix matrix;
  int owner = 0;  // replica * ranks of a shard group + rank in the group
};

// True for parameters whose matrices are orthogonalised.
using IsOrthogonalised = std::function<bool(const ParameterSpec&)>;

// Operations of an iteration of Newton-Schulz on a matrix (training/optimizers/newton_schulz.h).
double orthogonalisation_cost(std::int64_t rows, std::int64_t columns);

// The matrices of all units, unit by unit. Each goes to the rank with the least cost so far, the
// matrices of a unit in the order of falling cost.
std::vector<PlacedMatrix> place_matrices(const UnitTable& table, const IsOrthogonalised& choose,
                                         int num_ranks);

// Elements [from, from + numel) of one buffer go to [to, to + numel) of another one.
struct MatrixCopy {
  std::int64_t from = 0;
  std::int64_t to = 0;
  std::int64_t numel = 0;
};

// Consecutive matrices of one shape: [count, rows, columns] from `begin` on.
struct MatrixBatch {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};

// The sizes of an ExchangeBucket, in elements.
struct ExchangeLoad {
  std::int64_t outgoing_numel = 0;
  std::int64_t incoming_numel = 0;
  std::vector<MatrixBatch> batches;
};

// What one rank sends, receives and orthogonalises for the matrices of a unit. Two buffers hold it.
// `outgoing` has this rank's elements of all matrices, a section for each replica. A replica's
// section has the matrices that its ranks own, in the order of the ranks. `incoming` has all
// elements of the matrices that this rank owns, in the order of the ranks that send them.
struct ExchangeBucket {
  int unit = 0;
  std::vector<std::int64_t> section_begin;  // [replicas + 1] in outgoing
  std::vector<MatrixCopy> elements;         // from FlatState to outgoing
  std::size_t first_own = 0;                // elements [first_own, end_own) are of this replica
  std::size_t end_own = 0;
  bool exchanges = false;  // ranks of this replica own matrices and send each other parts of them
  std::vector<std::size_t> send_counts;     // [ranks of the group], of this replica's section
  std::vector<std::size_t> receive_counts;  // [ranks of the group]
  std::vector<MatrixCopy> placed;           // from incoming to the matrices one after another
  std::vector<MatrixBatch> batches;         // of the matrices one after another

  std::int64_t outgoing_numel() const { return section_begin.back(); }
  std::int64_t incoming_numel() const;
  ExchangeLoad load() const { return {outgoing_numel(), incoming_numel(), batches}; }
};

// In the order of the units that have matrices.
std::vector<ExchangeBucket> exchange_buckets(const UnitTable& table,
                                             const std::vector<PlacedMatrix>& matrices,
                                             const ProcessMesh& mesh);

// The loads of all ranks, for estimates. They need no copies of single matrices, and what all ranks
// share is computed once.
class ExchangeLoads {
 public:
  // `table` is for ranks of a group of `shard_size`.
  ExchangeLoads(const UnitTable& table, const std::vector<PlacedMatrix>& matrices, int shard_size);

  // Of the buckets that exchange_buckets() makes for this rank, in their order. `rank`: as
  // PlacedMatrix::owner.
  std::vector<ExchangeLoad> of(int rank) const;

 private:
  std::vector<PlacedMatrix> ordered_;
  std::vector<std::pair<std::size_t, std::size_t>> units_;  // ranges of ordered_
  std::vector<std::vector<std::int64_t>> outgoing_;         // [ranks of the group][units_]
};

}  // namespace packtrain
