// Reads arbitrary bytes as token files. Expects an error, or a data set whose sequences can all be read, counted and
// copied.
//
// The first byte / 256 is the fraction of the remaining bytes that form the .bin. The .idx comes before the .bin, to
// keep the corpus readable.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/files.h"
#include "data/document_copy.h"
#include "data/indexed_dataset.h"
#include "data/token_counts.h"

using namespace mtl;

namespace {

/// Returns a folder, in memory if possible. It is created on the first call and removed at exit.
const std::string& work_folder() {
  struct Folder {
    std::string path = cat(file_exists("/dev/shm") ? "/dev/shm" : "/tmp", "/mtl_idx_fuzz.", ::getpid(), "/");
    Folder() { make_directories(path); }
    ~Folder() { fs::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

void write_file(const std::string& path, const std::uint8_t* data, std::size_t size) {
  OutputFile file(path);
  file.write(data, size);
  file.close();
}

void read_all(const IndexedDataset& data) {
  std::vector<std::int32_t> tokens;
  std::int64_t sum = 0;
  for (std::int64_t i = 0; i < data.sequences(); ++i) {
    tokens.resize(static_cast<std::size_t>(data.lengths()[i]));
    if (data.token_begin(i) != sum) std::abort();
    sum += data.lengths()[i];
    data.read(i, 0, tokens);
  }
  if (sum != data.tokens() || data.document_begin(data.documents()) != data.sequences()) std::abort();
}

/// Copies the documents one by one. The copy must equal the original, so no sequence is outside the documents.
void copy_all(const IndexedDataset& data) {
  DocumentCopy copy(work_folder() + "copy", data.type(), data.is_multimodal());
  copy.write({data.documents(),
              [&](std::int64_t i) {
                return DocumentRange{&data, i, i + 1};
              }},
             1, [](std::uint64_t) {});
  const bool same = copy.written().bin_hash == hash_bytes(data.bin_file().bytes().data(), data.bin_bytes()) &&
                    copy.written().idx_hash == data.idx_hash();
  if (!same) std::abort();
}

/// Calls `work` and ignores errors about bad data. Other errors terminate the process.
template <class Work>
void attempt(Work work) {
  try {
    work();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t total = size - 1, bin_bytes = total * data[0] / 256;
  const std::string prefix = work_folder() + "data";
  write_file(prefix + ".idx", data + 1, total - bin_bytes);
  write_file(prefix + ".bin", data + 1 + (total - bin_bytes), bin_bytes);
  attempt([&] {
    const IndexedDataset files(prefix);
    copy_all(files);
    attempt([&] { read_all(files); });
    attempt([&] { check_token_range(files, 100, 2); });
    if (files.type() == DataType::u16) count_tokens(files, 2);
  });
  return 0;
}
