// Thread counts for a process that shares its host with other ranks.
#include <doctest/doctest.h>

#include <new>
#include <system_error>

#include "base/error.h"
#include "base/exception_text.h"
#include "base/files.h"
#include "base/threads.h"
#include "tests/scratch_folder.h"

using namespace mtl;

TEST_CASE("threads: a given number is used; otherwise the local ranks share all cores") {
  CHECK(resolve_threads(3) == 3);
  CHECK(resolve_threads(3, 8) == 3);
  int alone = resolve_threads(0);
  CHECK(alone >= 1);
  CHECK(resolve_threads(0, 1) == alone);
  CHECK(resolve_threads(0, 2) <= alone);
  CHECK(resolve_threads(0, 1 << 20) == 1);
}

namespace {

/// Emulates the files of a machine's cgroups in a temporary folder.
class Groups {
 public:
  explicit Groups(const std::string& own) { write("proc/self/cgroup", own); }
  void write(const std::string& name, const std::string& text) const {
    make_directories(parent_folder(folder_ / name));
    write_file_atomic(folder_ / name, text);
  }
  KernelFiles files() const { return {.proc = folder_ / "proc", .cgroups = folder_ / "sys"}; }
  /// Returns "NAME: CORES", or "" without a quota.
  std::string quota() const {
    const std::optional<CpuQuota> quota = cpu_quota(files());
    return quota ? cat(quota->name, ": ", quota->cores) : "";
  }

 private:
  test::ScratchFolder folder_;
};

}  // namespace

TEST_CASE("threads: the quota of cgroups v2 is the smallest of the group and its ancestors") {
  const Groups groups("0::/kubepods/pod_7/main\n");
  CHECK(groups.quota().empty());
  groups.write("sys/kubepods/pod_7/main/cpu.max", "max 100000\n");
  CHECK(groups.quota().empty());
  groups.write("sys/kubepods/pod_7/cpu.max", "250000 100000\n");
  groups.write("sys/kubepods/cpu.max", "800000 50000\n");
  CHECK(groups.quota() == "the CPU quota of cgroup /kubepods/pod_7 (cpu.max): 2.5");
  groups.write("sys/cpu.max", "50000 100000\n");
  CHECK(groups.quota() == "the CPU quota of cgroup / (cpu.max): 0.5");
  for (const char* broken : {"", "50000", "x y", "0 100000", "50000 0", "-1 100000"}) {
    CAPTURE(broken);
    groups.write("sys/cpu.max", broken);
    CHECK(groups.quota() == "the CPU quota of cgroup /kubepods/pod_7 (cpu.max): 2.5");
  }
}

TEST_CASE("threads: the quota of cgroups v1, whose folder has the name of one controller or of all") {
  for (const char* mount : {"sys/cpu", "sys/cpu,cpuacct"}) {
    CAPTURE(mount);
    const Groups groups("3:memory:/other\n4:cpu,cpuacct:/docker/0a1b\n");
    groups.write(cat(mount, "/cpu.cfs_period_us"), "100000\n");
    groups.write(cat(mount, "/cpu.cfs_quota_us"), "-1\n");
    CHECK(groups.quota().empty());
    groups.write(cat(mount, "/cpu.cfs_quota_us"), "150000\n");
    CHECK(groups.quota() == "the CPU quota of cgroup / (cpu.cfs_quota_us): 1.5");
  }
}

TEST_CASE("threads: as many as the quota, rounded up, which the local ranks share") {
  const Groups groups("0::/\n");
  const int cores = resolve_threads(0, 1, groups.files());
  CHECK(describe_quota(1, groups.files()).empty());
  groups.write("sys/cpu.max", "120000 100000\n");
  CHECK(resolve_threads(0, 1, groups.files()) == std::min(cores, 2));
  CHECK(resolve_threads(0, 2, groups.files()) == 1);
  CHECK(resolve_threads(3, 1, groups.files()) == 3);
  groups.write("sys/cpu.max", "20000 100000\n");
  CHECK(resolve_threads(0, 1, groups.files()) == 1);
  CHECK(describe_quota(1, groups.files()) ==
        (cores == 1 ? "" : "1 thread, because the CPU quota of cgroup / (cpu.max) is 0.2 cores"));
}

TEST_CASE("threads: one that the limits of the process refuse is explained, other exceptions keep their text") {
  const std::system_error refused(std::make_error_code(std::errc::resource_unavailable_try_again));
  CHECK(describe_exception(refused).find("the limit on processes and threads is reached (ulimit -u, or pids.max") !=
        std::string::npos);
  CHECK(describe_exception(Error(Exit::io, "a: full")) == "a: full");
  CHECK(describe_exception(std::bad_alloc()) == "out of memory");
  CHECK(describe_exception(std::logic_error("x")) == "internal error: x");
}
