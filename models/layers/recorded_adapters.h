// The low-rank updates that several adapters make to one linear layer, each to the rows of its own
// examples, recorded on the block's tape:
//    y[rows of a] += s B_a^T,  s = scale_a x[rows of a] A_a^T
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/block/operator_tape.h"
#include "models/layers/adapter_targets.h"
#include "models/layers/declared_parameters.h"

namespace packtrain {

struct AdapterUpdate;

class RecordedAdapters {
 public:
  // Declares the parameters of NAME.weight's updates, and records the products with A on x. Adapter
  // number i of the batch has updates[i].
  RecordedAdapters(OperatorTape& tape, const std::string& name, Value x,
                   std::vector<WeightUpdate> updates);

  // s [rows, largest total rank]; an adapter uses as many columns as its ranks in sum.
  Value s() const { return s_; }
  // The multiplications with an addition, if all rows are of the adapter with the most.
  std::int64_t multiply_adds(std::int64_t num_rows) const;
  // Adds the updates to `y`.
  void add_to(OperatorContext& run, const at::Tensor& y) const;
  // Writes the gradients of all B, sets the gradient of s, and adds to the gradient of x.
  void backward(OperatorContext& run, const at::Tensor& grad_output,
                const at::Tensor& grad_x) const;

 private:
  Value s_;
  std::shared_ptr<const std::vector<AdapterUpdate>> updates_;  // by number of the adapter
  bool selected_ = false;                                      // x has the supervised rows alone
};

}  // namespace packtrain
