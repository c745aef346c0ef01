// The control groups that this process belongs to, in whose files Linux keeps limits of memory and CPU time (versions 1
// and 2).
#pragma once

#include <string>
#include <vector>

namespace mtl {

/// Where the kernel's files are. Tests replace them.
struct KernelFiles {
  std::string proc = "/proc";
  std::string cgroups = "/sys/fs/cgroup";
};

struct Cgroup {
  int version = 2;
  std::string folder;  // contains the group's files
  std::string name;    // "/slurm/job_7"; "/" is the root or, in a container, may be the container's own group
};

/// Returns the groups that may have files of `controller`, such as "memory": those of this process, each followed by
/// its ancestors. A group or a file in it may not exist: in a container, the names of its groups may exist only on the
/// host, and the mount point itself is the container's group.
std::vector<Cgroup> own_cgroups(const std::string& controller, const KernelFiles& files = {});

/// Returns a kernel file's content, or "" if there is no such file. Ignores the file's size, which is always 0.
std::string read_kernel_file(const std::string& path);

}  // namespace mtl
