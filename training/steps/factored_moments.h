// Adafactor's second moments and updates (training/optimizers/adafactor.h) over a sharded gradient.
// A rank owns ranges of the parameters' elements, which may cut matrices and rows. It sums its
// squares by rows and columns. One all-reduce of the shard group adds these up, together with the
// state, of which each rank has a part. A second one adds up the squares of the updates. So nothing
// of the size of a matrix is sent, and no rank has a matrix whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "models/block/parameter_matrices.h"
#include "parallel/sharding/sharded_model.h"
#include "training/optimizers/optimizer.h"

namespace packtrain {

// Consecutive elements of a matrix: whole rows, or a part of one.
struct MatrixRectangle {
  std::int64_t begin = 0;  // of its elements, in the matrix
  std::int64_t row = 0;
  std::int64_t num_rows = 0;
  std::int64_t column = 0;
  std::int64_t num_columns = 0;

  std::int64_t numel() const { return num_rows * num_columns; }
};

// What a rank owns of a matrix of a parameter.
struct FactoredMatrix {
  std::int64_t index = 0;          // of the matrix in its parameter
  std::int64_t factors_begin = 0;  // of r among the parameter's factors; c follows
  ParameterMatrix matrix;
  std::vector<MatrixRectangle> rectangles;
};

class FactoredMoments {
 public:
  // The settings of a parameter; null: its optimizer has no factored moments.
  using SettingsOf = std::function<const FactoredSettings*(const ParameterSpec&)>;
  // The step's options of a parameter.
  using OptionsOf = std::function<UpdateOptions(const ParameterSpec&)>;

  // The model outlives it.
  FactoredMoments(ShardedModel& model, const SettingsOf& settings_of);

  // True if no parameter of the model has factored moments.
  bool empty() const { return parameters_.empty(); }
  // Collective over the shard group, on the compute stream. Updates the state. Replaces the
  // gradient of these parameters, so that the weights move by the learning rate times it. `flat`:
  // ShardedModel::gradient(). A skipped step leaves the state as it is. Deterministic. The result
  // depends on the number of ranks by the rounding of sums.
  void run(const at::Tensor& flat, const OptionsOf& options_of);

 private:
  // What this rank owns of a parameter, and the places of its sums.
  struct Factored {
    const ParameterSpec* spec = nullptr;
    const FactoredSettings* settings = nullptr;
    std::vector<ParameterMatrix> matrices;  // all; one row for a parameter that is not factored
    bool is_factored = true;
    std::int64_t sums_begin = 0;     // of r and c of all matrices; the state follows
    std::int64_t num_factors = 0;    // 0 if it is not factored
    std::int64_t squares_begin = 0;  // of the first matrix
    std::int64_t begin = 0;          // owned elements
    std::int64_t numel = 0;
    std::int64_t state_begin = 0;  // in `flat`
    at::Tensor master = {};        // 1-D
    at::Tensor state = {};         // 1-D
    std::int64_t elements_per_value = 1;
    std::vector<FactoredMatrix> owned = {};  // of the matrices
  };

  void add(const ParameterSpec& spec, const FactoredSettings& settings);
  void find_owned();
  void sum_gradient(const Factored& parameter, const at::Tensor& flat, const at::Tensor& clip);
  void sum_state(const Factored& parameter);
  void write_factors(const Factored& parameter, const UpdateOptions& options);
  void write_updates(const Factored& parameter, const at::Tensor& flat,
                     const UpdateOptions& options);
  void scale_updates(const Factored& parameter, const at::Tensor& flat,
                     const UpdateOptions& options);
  // The part of the parameter's factors that the rank has state for, as a view of sums_.
  at::Tensor own_factors(const Factored& parameter, std::int64_t begin) const;

  ShardedModel& model_;
  std::vector<Factored> parameters_;
  std::int64_t num_sums_ = 0;
  std::int64_t num_squares_ = 0;
  at::Tensor sums_;     // float32: of gradients' squares and of the state, then squares of weights
  at::Tensor squares_;  // float32 [matrices], of updates
};

// Elements that one operator takes of a matrix, at least a row.
inline constexpr std::int64_t kFactoredElements = std::int64_t{1} << 22;

// Bytes of the sums that FactoredMoments keeps for parameters with these specs.
std::int64_t factored_sum_bytes(std::span<const ParameterSpec* const> parameters);

}  // namespace packtrain
