#include "base/inputs.h"

#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/shell_word.h"
#include "base/usage_error.h"

namespace mtl {

namespace {

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> out;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  return out;
}

/// Describes a folder, which is not a text. Datasets of Hugging Face are folders with Arrow files.
std::string folder_problem(const std::string& folder) {
  if (file_exists(folder + "/dataset_dict.json"))
    return cat(folder, " has several datasets of Hugging Face; use one of its folders, such as ", folder, "/train");
  if (!matches(folder + "/*.arrow").empty())
    return cat(
        folder,
        " is a folder of Arrow files (a dataset of Hugging Face); convert it to JSON lines with pyarrow: python3 -c "
        "\"import glob, json, sys, pyarrow as p; any(print(json.dumps(r, default=str)) for f in "
        "sorted(glob.glob(glob.escape(sys.argv[1]) + '/*.arrow')) for b in p.ipc.open_stream(p.memory_map(f)) for r in "
        "b.to_pylist())\" ",
        shell_word(folder), " | ... --input -");
  return cat(folder, " is a folder; use its files, or a pattern that matches them: ", shell_word(folder + "/*"));
}

/// Returns why the file cannot be read, or "" if it can.
std::string problem_with(const std::string& file) {
  if (file == "-") return "";
  if (is_directory(file)) return folder_problem(file);
  if (::access(file.c_str(), R_OK) != 0) return cat(file, ": cannot read: ", std::strerror(errno));
  return "";
}

/// Returns a regular file's device and inode, and nullopt for anything else, because AtomicFile replaces only regular
/// files.
std::optional<std::pair<dev_t, ino_t>> identity_of(const std::string& file) {
  struct stat info {};
  const bool is_known = (file == "-" ? ::fstat(STDIN_FILENO, &info) : ::stat(file.c_str(), &info)) == 0;
  if (!is_known || !S_ISREG(info.st_mode)) return {};
  return std::pair(info.st_dev, info.st_ino);
}

}  // namespace

std::vector<std::string> find_inputs(const std::vector<std::string>& words) {
  std::vector<std::string> files, problems;
  for (const std::string& word : words) {
    std::vector<std::string> found = word == "-" || file_exists(word) ? std::vector{word} : matches(word);
    if (found.empty()) {
      bool is_pattern = word.find_first_of("*?[") != std::string::npos;
      problems.push_back(word + (is_pattern ? ": no such file, and no file matches this pattern" : ": no such file"));
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

void refuse_overwriting(const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                        const std::string& flag) {
  std::map<std::pair<dev_t, ino_t>, std::string> names;  // input names by device and inode
  for (const std::string& input : inputs) {
    if (const auto identity = identity_of(input)) names.emplace(*identity, input == "-" ? "standard input" : input);
  }
  std::vector<Problem> problems;
  for (const std::string& output : outputs) {
    const auto identity = identity_of(output);
    const auto input = identity ? names.find(*identity) : names.end();
    if (input == names.end()) continue;
    const std::string which = input->second == output ? "" : cat(" (", input->second, ")");
    problems.push_back(
        {output, cat("is one of the inputs", which, " and would be overwritten; choose another ", flag)});
  }
  if (!problems.empty()) throw UsageError(problems);
}

void check_output(const std::vector<std::string>& inputs, const std::string& output) {
  constexpr const char* kRemedy = "; choose another --output";
  refuse_overwriting(inputs, {output}, "--output");
  if (is_directory(output)) fail_at(Exit::io, output, "this is a folder", kRemedy, ", the name of a file");
  if (file_exists(output) && !is_regular_file(output)) return;    // a device or pipe, written in place
  const std::string folder = parent_folder(follow_link(output));  // a link stays, and its target is replaced
  if (!is_directory(folder))
    fail_at(Exit::io, output, "there is no folder ", folder, "; make it, or choose another --output");
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    fail_at(Exit::io, folder, "cannot create files here: ", std::strerror(errno), kRemedy);
}

}  // namespace mtl
