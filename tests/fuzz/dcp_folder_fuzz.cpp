// Reads arbitrary bytes as the files of a small distributed checkpoint. Expects an error, or tensors whose elements can
// all be read.
//
// The files are .metadata, common.pt, metadata.json and __0_0.distcp, in this order, with the line kNextFile between
// them. An empty file is missing: without metadata.json, the checkpoint is torchtitan's, otherwise Megatron-LM's.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/files.h"
#include "formats/dcp_folder.h"
#include "models/dcp_llama.h"
#include "models/torch_dist_reader.h"
#include "tests/fuzz/read_model.h"

using namespace mtl;

namespace {

constexpr std::string_view kNextFile = "\n-- next file --\n";

/// A folder in memory, if possible. Removed at exit.
class InputFolder {
 public:
  InputFolder() { make_directories(path_); }
  ~InputFolder() { fs::remove_all(path_); }
  InputFolder(const InputFolder&) = delete;

  const std::string& path() const { return path_; }

  void write(std::string_view input) const {
    for (const char* name : {".metadata", "common.pt", "metadata.json", "__0_0.distcp"}) {
      const std::size_t size = std::min(input.find(kNextFile), input.size());
      const std::string path = cat(path_, "/", name);
      fs::remove(path);
      if (size > 0) {
        OutputFile file(path);
        file.write(input.substr(0, size));
        file.close();
      }
      input.remove_prefix(std::min(input.size(), size + kNextFile.size()));
    }
  }

 private:
  std::string path_ = cat(file_exists("/dev/shm") ? "/dev/shm" : "/tmp", "/mtl_dcp_folder_fuzz.", ::getpid());
};

template <class Read>
void run_reader(const Read& read) {
  try {
    read();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data && error.code() != Exit::usage) throw;
  }
}

/// Opens every archive, also those that no model needs.
void open_archives(const std::string& path) {
  const DcpFolder folder(path);
  for (const auto& [key, tensor] : folder.tensors()) {
    for (const DcpBox& box : tensor.boxes)
      run_reader([&, &key = key, &tensor = tensor] { folder.open_box(key, tensor, box).archive->verify(); });
  }
  for (const auto& [key, range] : folder.objects())
    run_reader([&, &key = key, &range = range] { folder.open_object(key, range)->verify(); });
}

void open_and_read(const std::string& path) {
  Console console("fuzz_dcp_folder");
  console.silent = true;
  const ModelSupplement given{.num_attention_heads = 2};
  const std::unique_ptr<TensorReader> model =
      has_mark(kTorchDistMarks, path) ? open_torch_dist(path, given, console) : open_dcp_llama(path, given, console);
  read_model(*model);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const InputFolder folder;
  folder.write({reinterpret_cast<const char*>(data), size});
  run_reader([&] { open_archives(folder.path()); });
  run_reader([&] { open_and_read(folder.path()); });
  return 0;
}
