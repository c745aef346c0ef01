#include "base/cgroups.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "base/str.h"

namespace mtl {

namespace {

/// Appends a group, whose hierarchy is mounted at `mount`, and its ancestors.
void add_with_ancestors(int version, const std::string& mount, std::string name, std::vector<Cgroup>& out) {
  for (;;) {
    const bool is_root = name.empty() || name == "/";
    out.push_back({.version = version, .folder = is_root ? mount : mount + name, .name = is_root ? "/" : name});
    if (is_root) return;
    name.erase(name.rfind('/'));
  }
}

}  // namespace

std::vector<Cgroup> own_cgroups(const std::string& controller, const KernelFiles& files) {
  std::vector<Cgroup> out;
  for (const std::string& line : split(read_kernel_file(files.proc + "/self/cgroup"), '\n')) {
    // "4:cpu,memory:/job_7" in version 1, "0::/job_7" in version 2.
    const std::size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1), name = line.substr(second + 1);
    if (controllers.empty()) {
      add_with_ancestors(2, files.cgroups, name, out);
      add_with_ancestors(2, files.cgroups + "/unified", name, out);
    } else if (const auto names = split(controllers, ','); std::ranges::find(names, controller) != names.end()) {
      add_with_ancestors(1, cat(files.cgroups, "/", controller), name, out);
      if (names.size() > 1) add_with_ancestors(1, cat(files.cgroups, "/", controllers), name, out);
    }
  }
  return out;
}

std::string read_kernel_file(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace mtl
