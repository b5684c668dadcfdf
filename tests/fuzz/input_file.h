// A file in memory for readers that open files by name. Each input overwrites it.
#pragma once

#include <string>
#include <string_view>

namespace packtrain::fuzz {

// Aborts the process unless `holds`: what a fuzzer and a test both count as a find.
void require(bool holds, const char* what);

class InputFile {
 public:
  InputFile();
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  void write(std::string_view bytes);
  const std::string& path() const { return path_; }

 private:
  int descriptor_;
  std::string path_;
};

// A folder in memory, removed with the object.
class InputFolder {
 public:
  InputFolder();
  ~InputFolder();
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  void write(const std::string& name, std::string_view bytes) const;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace packtrain::fuzz
