#include "samplers/selected_examples.h"

namespace packtrain {

SelectedExamples::SelectedExamples(std::size_t num_examples, std::vector<ExampleIndex> left_out)
    : size_(num_examples - left_out.size()), list_(std::move(left_out)) {
  if (list_.size() > size_) {
    std::vector<ExampleIndex> selected = table();
    list_ = std::move(selected);
    is_of_selected_ = true;
  }
  list_.shrink_to_fit();
}

std::vector<ExampleIndex> SelectedExamples::table() const {
  std::vector<ExampleIndex> examples;
  examples.reserve(size_);
  for_each([&](ExampleIndex example) { examples.push_back(example); });
  return examples;
}

// list_[k] - k selected examples come before list_[k]. The result skips as many k as have at most
// `place` of them.
ExampleIndex SelectedExamples::beyond_left_out(std::size_t place) const {
  std::size_t low = 0;
  std::size_t high = list_.size();
  while (low < high) {
    const std::size_t k = low + (high - low) / 2;
    if (list_[k] - k <= place) {
      low = k + 1;
    } else {
      high = k;
    }
  }
  return static_cast<ExampleIndex>(place + low);
}

}  // namespace packtrain
