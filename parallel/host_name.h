#pragma once

#include <string>

namespace packtrain {

std::string host_name();  // as gethostname() tells it; "unknown" when it cannot

}  // namespace packtrain
