#include "models/ops/autograd_cuda.h"

namespace packtrain {

void attach_cuda_context() {}

}  // namespace packtrain
