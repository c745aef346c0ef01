// Reads arbitrary bytes as a flat token file. Expects an error, or token files that contain the same ids.
//
// The first byte chooses the document token's position, the next one its id, the third how a file without header is
// read: its type, or that it must have a header.
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/console.h"
#include "base/files.h"
#include "data/flat_tokens.h"
#include "data/import_tokens.h"
#include "data/indexed_dataset.h"

using namespace mtl;

namespace {

/// Returns a folder, in memory if possible. It is created on the first call and removed at exit.
const std::string& flat_folder() {
  struct Folder {
    std::string path = cat(file_exists("/dev/shm") ? "/dev/shm" : "/tmp", "/mtl_flat_fuzz.", ::getpid(), "/");
    Folder() { make_directories(path); }
    ~Folder() { fs::remove_all(path); }
  };
  static const Folder folder;
  return folder.path;
}

/// Compares the documents with the file, id by id. Each document must hold the token only where it may.
void check_documents(const IndexedDataset& made, const FlatTokenFile& file, const std::optional<DocumentToken>& token) {
  if (made.tokens() != file.tokens() || made.documents() != made.sequences()) std::abort();
  std::vector<std::byte> stored(file.tokens() * file.type().bytes);
  file.read(file.header_bytes(), stored);
  std::size_t at = 0;
  for (std::int64_t i = 0; i < made.sequences(); ++i) {
    std::vector<std::int32_t> ids(made.lengths()[i]);
    if (ids.empty()) std::abort();
    made.read(i, 0, ids);
    for (std::size_t j = 0; j < ids.size(); ++j) {
      if (std::to_string(ids[j]) != token_text(file.type(), stored, at++)) std::abort();
      const bool is_edge = token && (token->is_first ? j == 0 : j + 1 == ids.size());
      if (token && ids[j] == token->id && !is_edge) std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kChoices = 3;
  if (size < kChoices) return 0;
  const std::string path = flat_folder() + "input", prefix = flat_folder() + "made";
  OutputFile input(path);
  input.write(data + kChoices, size - kChoices);
  input.close();
  std::optional<DocumentToken> token;
  if (data[0] % 3 > 0) token = {data[1], data[0] % 3 == 1};
  constexpr IntegerType kTypes[] = {{1, false}, {1, true}, kU16, {2, true}, kU32, kI32, {8, false}, kI64};
  const auto format = data[2] < 128 ? std::optional(TokenFormat::nanogpt) : std::nullopt;
  Console console("fuzz");
  console.quiet = console.silent = true;
  try {
    std::vector<FlatTokenFile> files;
    files.emplace_back(path, format, kTypes[data[2] % 8]);
    import_tokens({.prefix = prefix, .command = {"fuzz"}, .document_token = token}, files, console);
    check_documents(IndexedDataset(prefix), files.front(), token);
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data) throw;
  }
  return 0;
}
