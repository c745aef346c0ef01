// Memory limits, computed from files in the kernel's format.
#include "base/memory_limits.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/files.h"
#include "tests/error_of.h"
#include "tests/scratch_folder.h"

using namespace mtl;

namespace {

constexpr std::uint64_t kMiB = 1 << 20;

/// Emulates the /proc and /sys/fs/cgroup files of a machine with 800 MiB free. They live in a temporary folder.
class Machine {
 public:
  Machine() {
    write("proc/meminfo", "MemTotal:  4096000 kB\nMemFree:  1024 kB\nMemAvailable:  819200 kB\n");
    write("proc/self/status", "Name:\tmtl-train\nVmSize:\t  102400 kB\nVmData:\t   51200 kB\n");
  }
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories(fs::path(folder_ / name).parent_path());
    OutputFile file(folder_ / name);
    file.write(text);
    file.close();
  }
  /// Writes the files for a version 1 or version 2 cgroup.
  void write_cgroup(int version, const std::string& folder, const std::string& limit, std::uint64_t used,
                    std::uint64_t cached) const {
    const bool is_v1 = version == 1;
    write(folder + (is_v1 ? "/memory.limit_in_bytes" : "/memory.max"), limit + "\n");
    write(folder + (is_v1 ? "/memory.usage_in_bytes" : "/memory.current"), cat(used * kMiB, "\n"));
    const char* total = is_v1 ? "total_" : "";
    write(folder + "/memory.stat",
          cat("anon 5\n", total, "inactive_file ", cached * kMiB, "\n", total, "active_file ", kMiB, "\n"));
  }
  MemorySources sources() const { return {.files = {.proc = folder_ / "proc", .cgroups = folder_ / "sys"}}; }

 private:
  test::ScratchFolder folder_;
};

/// Returns the limits as "name: MiB" strings, sorted.
std::vector<std::string> limit_texts(const MemorySources& sources) {
  std::vector<std::string> out;
  for (const MemoryLimit& limit : memory_limits(sources))
    out.push_back(cat(limit.name, ": ", limit.bytes / kMiB, limit.is_per_process ? " per process" : ""));
  std::ranges::sort(out);
  return out;
}

}  // namespace

TEST_CASE("memory limits: without a memory cgroup, free memory is the only limit") {
  Machine machine;
  CHECK(limit_texts(machine.sources()) == std::vector<std::string>{"MemAvailable: 800"});
  machine.write("proc/self/cgroup", "0::/job\n4:memory:/\nbroken\n");
  CHECK(limit_texts(machine.sources()) == std::vector<std::string>{"MemAvailable: 800"});
}

TEST_CASE("memory limits: cgroups v2: those of the group and its ancestors; cached files count as free") {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  machine.write_cgroup(2, "sys/slurm/job_7/step_0", "max", 100, 0);
  machine.write_cgroup(2, "sys/slurm/job_7", cat(500 * kMiB), 300, 99);
  machine.write_cgroup(2, "sys/slurm", cat(100 * kMiB), 300, 0);
  CHECK(limit_texts(machine.sources()) == std::vector<std::string>{"MemAvailable: 800",
                                                                   "the memory cgroup /slurm (memory.max): 0",
                                                                   "the memory cgroup /slurm/job_7 (memory.max): 300"});
}

TEST_CASE("memory limits: a cgroup has one name for all of its processes, whatever its path in their containers") {
  Machine machine;
  const auto groups = [&](const MemorySources& sources) {
    std::vector<std::string> out;
    for (const MemoryLimit& limit : memory_limits(sources))
      if (!limit.group.empty()) out.push_back(limit.group);
    return out;
  };
  machine.write_cgroup(2, "sys/slurm/job_7/step_0", cat(100 * kMiB), 10, 0);
  machine.write_cgroup(2, "sys/slurm/job_7", cat(500 * kMiB), 300, 99);
  machine.write("proc/self/cgroup", "0::/slurm/job_7/step_0\n");
  const std::vector<std::string> own = groups(machine.sources());
  REQUIRE(own.size() == 2);
  CHECK(own[0] != own[1]);
  machine.write("proc/self/cgroup", "0::/slurm/job_7\n");
  CHECK(groups(machine.sources()) == std::vector{own[1]});
  MemorySources inside = machine.sources();  // a container, whose root is the group
  inside.files.cgroups += "/slurm/job_7";
  machine.write("proc/self/cgroup", "0::/\n");
  CHECK(groups(inside) == std::vector{own[1]});
}

TEST_CASE("memory limits: cgroups v1: that of the root group if the path is absent, as in a container") {
  Machine machine;
  machine.write("proc/self/cgroup", "5:cpu,memory:/docker/0a1b\n1:cpu:/other\n0::/\n");
  machine.write_cgroup(1, "sys/memory", cat(600 * kMiB), 200, 19);
  CHECK(limit_texts(machine.sources()) ==
        std::vector<std::string>{"MemAvailable: 800", "the memory cgroup / (memory.limit_in_bytes): 420"});
  machine.write_cgroup(1, "sys/memory", "9223372036854771712", 200, 19);  // no limit
  CHECK(limit_texts(machine.sources()) == std::vector<std::string>{"MemAvailable: 800"});
}

TEST_CASE("memory limits: resource limits apply per process, less its current use") {
  Machine machine;
  MemorySources sources = machine.sources();
  sources.address_space = 300 * kMiB;
  sources.data = 20 * kMiB;
  CHECK(limit_texts(sources) == std::vector<std::string>{"MemAvailable: 800",
                                                         "the limit of address space (ulimit -v): 200 per process",
                                                         "the limit of the data segment (ulimit -d): 0 per process"});
}

TEST_CASE("memory limits: what does not fit under the smallest limit is refused, with the limit and the remedy") {
  Machine machine;
  machine.write("proc/self/cgroup", "0::/job_7\n");
  machine.write_cgroup(2, "sys/job_7", cat(500 * kMiB), 300, 49);  // and 1 MiB of active files
  const std::uint64_t fits = 250 * kMiB - kProgramBytes;
  CHECK(has_memory(fits, machine.sources()));
  CHECK(!has_memory(fits + 1, machine.sources()));
  CHECK_NOTHROW(require_memory(fits, "a batch", "use a smaller one", machine.sources()));
  CHECK(test::error_of([&] { require_memory(fits + kMiB, "a batch", "use a smaller one", machine.sources()); },
                       Exit::usage) ==
        "not enough memory: a batch and the program need 251.0 MiB, but only 250.0 MiB is available (the memory cgroup "
        "/job_7 (memory.max)); use a smaller one");
}

TEST_CASE("memory limits: reads the sources of this process") {
  const auto limits = memory_limits();
  REQUIRE(!limits.empty());
  for (const MemoryLimit& limit : limits) {
    CAPTURE(limit.name);
    CHECK(limit.bytes > 0);
    CHECK(limit.bytes < std::uint64_t{1} << 50);
  }
}
