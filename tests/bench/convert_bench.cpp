// Measures conversions of checkpoints, driven by share/bench/convert.sh:
//   mtl_bench_convert make DIR LAYERS WIDTH VOCABULARY   saves a Llama with pseudorandom fp32 weights as
//   DIR/iter_0000000 mtl_bench_convert copy TO FROM...                    reads files and writes their bytes to one, as
//   mtl syncs files mtl_bench_convert run COMMAND [ARGUMENT]...          runs a command; prints its seconds and its
//   peak memory as JSON
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "base/console.h"
#include "base/files.h"
#include "ckpt/checkpoint.h"
#include "comm/groups.h"
#include "models/canonical.h"
#include "tests/gpt_of_size.h"

namespace mtl {
namespace {

void make(const std::string& folder, std::int64_t layers, std::int64_t width, std::int64_t vocabulary) {
  GptConfig config = test::llama_of_size(
      {.vocab = vocabulary, .layers = layers, .hidden = width, .heads = width / 128, .positions = 2048});
  config.ffn_hidden_size = width * 11 / 4;
  std::vector<float> elements;
  std::uint32_t random = 1;
  std::vector<TensorToSave> tensors;
  for (const CanonicalTensor& canonical : canonical_tensors(config)) {
    const auto draw = [&elements, &random, count = whole_slice(canonical.shape).count()] {
      elements.resize(static_cast<std::size_t>(count));
      for (float& element : elements) {
        random = random * 1664525u + 1013904223u;
        element = static_cast<float>(static_cast<std::int32_t>(random)) * 1e-11f;
      }
      return std::as_bytes(std::span(elements));
    };
    SavedTensor tensor{.name = "param." + canonical.name, .shape = canonical.shape};
    tensors.push_back({.tensor = std::move(tensor), .slice = whole_slice(canonical.shape), .bytes = draw});
  }
  SelfCommunicator alone;
  commit_checkpoint(folder, {config, TrainState{}, [&] { return std::move(tensors); }}, {}, alone,
                    [](const std::string&) {});
}

/// Reads and writes block by block, with the same syncs as OutputFile and AtomicFile.
void copy(const std::string& to, std::span<char* const> from) {
  const std::string temporary = to + ".tmp";
  const Descriptor out(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644));
  if (out < 0) fail_errno(temporary, "create");
  std::vector<char> block(1 << 20);
  std::uint64_t end = 0;
  const auto write_block = [&](std::size_t bytes) {
    for (std::size_t at = 0; at < bytes;) {
      const ssize_t written = ::write(out, block.data() + at, bytes - at);
      if (written < 0) fail_errno(temporary, "write");
      at += static_cast<std::size_t>(written);
      write_back(out, end, end + static_cast<std::uint64_t>(written));
      end += static_cast<std::uint64_t>(written);
    }
  };
  for (const char* path : from) {
    const Descriptor in(::open(path, O_RDONLY));
    if (in < 0) fail_errno(path, "open");
    ::posix_fadvise(in, 0, 0, POSIX_FADV_SEQUENTIAL);
    ssize_t got = 0;
    while ((got = ::read(in, block.data(), block.size())) > 0) write_block(static_cast<std::size_t>(got));
    if (got < 0) fail_errno(path, "read");
  }
  if (::fsync(out) != 0) fail_errno(temporary, "sync to disk");
  publish(temporary, to);
}

int run(char** command) {
  const double begin = now_seconds();
  const pid_t child = ::fork();
  if (child == 0) {
    ::execv(command[0], command);
    std::perror(command[0]);
    ::_exit(127);
  }
  int status = 0;
  rusage usage{};
  if (child < 0 || ::wait4(child, &status, 0, &usage) < 0) fail_errno(command[0], "run");
  std::printf("{\"seconds\": %.4f, \"peak_bytes\": %ld}\n", now_seconds() - begin, usage.ru_maxrss * 1024);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int run_bench(int argc, char** argv) {
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "run" && argc > 2) return run(argv + 2);
  if (mode == "copy" && argc > 3) {
    copy(argv[2], {argv + 3, argv + argc});
  } else if (mode == "make" && argc == 6) {
    make(argv[2], std::atoi(argv[3]), std::atoi(argv[4]), std::atoi(argv[5]));
  } else {
    std::fputs("usage: mtl_bench_convert make DIR LAYERS WIDTH VOCABULARY | copy TO FROM... | run COMMAND...\n",
               stderr);
    return 2;
  }
  return 0;
}

}  // namespace
}  // namespace mtl

int main(int argc, char** argv) {
  try {
    return mtl::run_bench(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "mtl_bench_convert: %s\n", error.what());
    return 1;
  }
}
