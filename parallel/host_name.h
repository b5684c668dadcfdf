#pragma once

#include <string>

namespace packtrain {

// $NCCL_HOSTID, by which NCCL tells hosts apart too, else as gethostname() tells it; "unknown" when
// it cannot.
std::string host_name();

}  // namespace packtrain
