#include "cli/inputs.h"

#include <glob.h>

#include "base/error.h"
#include "base/files.h"

namespace mtl {

namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return out;
}

}  // namespace

std::vector<std::string> find_inputs(const std::vector<std::string>& words) {
  std::vector<std::string> files, problems;
  for (const std::string& word : words) {
    std::vector<std::string> found = word == "-" || file_exists(word) ? std::vector{word} : matches(word);
    if (found.empty()) problems.push_back(word + ": no such file");
    for (std::string& file : found) {
      if (fs::is_directory(file)) problems.push_back(file + ": is a folder; name its files, or a pattern of them");
      files.push_back(std::move(file));
    }
  }
  if (!problems.empty()) fail(Exit::io, join(problems, "\n"));
  return files;
}

}  // namespace mtl
