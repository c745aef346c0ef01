// Reads arbitrary bytes as the model_optim_rng.pt of a model on one rank. Expects an error, or tensors whose elements
// can all be read.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/files.h"
#include "models/megatron_checkpoint.h"
#include "tests/fuzz/read_model.h"

using namespace mtl;

namespace {

/// A checkpoint's folder, in memory if possible. Removed at exit.
class RankFolder {
 public:
  RankFolder() { make_directories(path_ + "/mp_rank_00"); }
  ~RankFolder() { fs::remove_all(path_); }
  RankFolder(const RankFolder&) = delete;

  const std::string& path() const { return path_; }

  void write(const std::uint8_t* data, std::size_t size) const {
    OutputFile file(path_ + "/mp_rank_00/model_optim_rng.pt");
    file.write(data, size);
    file.close();
  }

 private:
  std::string path_ = cat(file_exists("/dev/shm") ? "/dev/shm" : "/tmp", "/mtl_megatron_fuzz.", ::getpid());
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const RankFolder folder;
  folder.write(data, size);
  Console console("fuzz_megatron");
  console.silent = true;
  try {
    const std::unique_ptr<TensorReader> model = open_megatron(folder.path(), {}, console);
    read_model(*model);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data && error.code() != Exit::usage) throw;
  }
  return 0;
}
