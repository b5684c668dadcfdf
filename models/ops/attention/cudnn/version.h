// Versions of cuDNN that attention accepts.
#pragma once

#include <cstdint>

namespace packtrain {

// `version` is as cudnnGetVersion() returns it: 91900 is 9.19.0. Throws Error(kDevice), which names
// the version found and what is wrong with it:
//    below 9.6        no grouped queries in packed sequences (cudnn-frontend,
//                     sdpa_support_surface.h)
//    9.10.0, 9.10.1   wrong results in half precision (the same file)
//    10 and above     another interface than the one compiled against
void check_cudnn_version(std::int64_t version);

}  // namespace packtrain
