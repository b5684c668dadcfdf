// Names of kernels for people.
#pragma once

#include <string>

namespace packtrain {

// "void cub::detail::kernel<int, 4>(int*)" of a mangled name; other names as they are.
std::string readable_kernel_name(const char* mangled);
// The same without namespaces, template arguments and parameters: "kernel".
std::string short_kernel_name(const std::string& readable);

}  // namespace packtrain
