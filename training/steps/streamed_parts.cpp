// OptimizerStep's parts, whose state is on the device or streamed from host memory.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "parallel/sharding/state_stream.h"
#include "training/steps/optimizer_step.h"

namespace packtrain {
namespace {

// Ranges are divided at multiples of this many elements: whole blocks of 8-bit moments, and whole
// words of their magnitudes (parallel/sharding/state_layout.cpp).
constexpr std::int64_t kDividedElements = 8 * kStateBlock;

}  // namespace

std::int64_t OptimizerStep::most_elements(int adapter, int optimizer) const {
  if (!model_.parameters().state().is_on_host) return std::numeric_limits<std::int64_t>::max();
  const Group& group = optimized_.at(adapter).groups.at(optimizer);
  const auto specs = group.optimizer->state();
  const std::int64_t gaps = (std::ssize(specs) + 1) * kStateAlignment;
  const std::int64_t bytes = state_bytes(specs, kDividedElements) +
                             kDividedElements * static_cast<std::int64_t>(sizeof(float));
  return std::max<std::int64_t>(1, (slot_bytes_ - gaps) / bytes) * kDividedElements;
}

// The slots have the size of the largest part, which is less than `slot_bytes` for a small model.
void OptimizerStep::make_stream() {
  for (const UpdatePass pass : {UpdatePass::kPrepare, UpdatePass::kUpdate, UpdatePass::kHessian}) {
    streamed_[pass] = streamed_parts(pass);
  }
  std::int64_t largest = 0;
  for (const StreamedPiece& piece : *streamed_.at(UpdatePass::kUpdate)) {
    largest = std::max(largest, streamed_bytes(piece));
  }
  model_.compute().run(
      [&](StreamHandle) { stream_ = model_.parameters().make_state_stream(largest); });
}

bool OptimizerStep::is_in(UpdatePass pass, const Part& part) const {
  const Optimizer& optimizer = *group_of(part).optimizer;
  switch (pass) {
    case UpdatePass::kPrepare:
      return optimizer.orthogonalises();
    case UpdatePass::kHessian:
      return optimizer.has_hessian();
    case UpdatePass::kUpdate:
      break;
  }
  return true;
}

StreamedPiece OptimizerStep::streamed(UpdatePass pass, const Part& part) const {
  const Optimizer& optimizer = *group_of(part).optimizer;
  StreamedPiece piece;
  const auto add = [&](const at::Tensor& tensor, StateUse use) {
    piece.push_back({tensor, use != StateUse::kNone, use == StateUse::kReadAndWrite});
  };
  if (part.master_on_host) add(part.tensors.master, optimizer.master_use(pass));
  for (std::size_t s = 0; s < part.tensors.state.size(); ++s) {
    add(part.tensors.state[s], optimizer.state_use(pass, s));
  }
  return piece;
}

StreamedPieces OptimizerStep::streamed_parts(UpdatePass pass) const {
  std::vector<StreamedPiece> pieces;
  for (const Part& part : parts_) {
    if (is_in(pass, part)) pieces.push_back(streamed(pass, part));
  }
  return std::make_shared<const std::vector<StreamedPiece>>(std::move(pieces));
}

// The model may replace the gradient's memory between steps, so parts keep no views of it.
void OptimizerStep::for_each_part(UpdatePass pass, const PartWork& work) {
  if (stream_ != nullptr) stream_->start(streamed_.at(pass));
  for (const Part& part : parts_) {
    if (!is_in(pass, part)) continue;
    ShardPart tensors = part.tensors;
    tensors.grad = model_.gradient().narrow(0, part.begin, part.numel);
    if (stream_ != nullptr) {
      const std::vector<at::Tensor>& on_device = stream_->take();
      if (part.master_on_host) tensors.master = on_device.front();
      std::ranges::copy(on_device.end() - std::ssize(tensors.state), on_device.end(),
                        tensors.state.begin());
    }
    work(part, tensors);
    if (stream_ != nullptr) stream_->give_back();
  }
  // The next pass of the step waits for the copies of this one itself.
  if (stream_ != nullptr && pass != UpdatePass::kPrepare) stream_->finish();
}

}  // namespace packtrain
