#include "cli/inputs.h"

#include <glob.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

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

/// Empty when the file can be read.
std::string problem_with(const std::string& file) {
  if (file == "-") return "";
  std::error_code error;
  if (fs::is_directory(file, error))
    return file + ": is a folder; name its files, or a pattern of them: " + file + "/*";
  if (::access(file.c_str(), R_OK) != 0) return cat(file, ": cannot read: ", std::strerror(errno));
  return "";
}

}  // namespace

std::vector<std::string> find_inputs(const std::vector<std::string>& words) {
  std::vector<std::string> files, problems;
  for (const std::string& word : words) {
    std::vector<std::string> found = word == "-" || file_exists(word) ? std::vector{word} : matches(word);
    if (found.empty()) {
      bool is_pattern = word.find_first_of("*?[") != std::string::npos;
      problems.push_back(word +
                         (is_pattern ? ": no such file, and nothing matches it as a pattern" : ": no such file"));
    }
    for (std::string& file : found) {
      std::string problem = problem_with(file);
      if (!problem.empty()) problems.push_back(problem);
      files.push_back(std::move(file));
    }
  }
  if (!problems.empty()) fail(Exit::io, join(problems, "\n"));
  return files;
}

}  // namespace mtl
