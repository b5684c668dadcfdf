// Readable names of kernels.
#pragma once

#include <string>

namespace packtrain {

// Demangles a name: "void cub::detail::kernel<int, 4>(int*)". Other names are returned unchanged.
std::string readable_kernel_name(const char* mangled);
// The same without namespaces, template arguments and parameters: "kernel".
std::string short_kernel_name(const std::string& readable);

}  // namespace packtrain
