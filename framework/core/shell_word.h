// Words of commands that messages show, so that a shell reads them as they are meant.
#pragma once

#include <string>

namespace packtrain {

// `text` as one word of a POSIX shell: as it is where all its characters are plain, else quoted.
std::string shell_word(const std::string& text);

}  // namespace packtrain
