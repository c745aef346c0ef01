#include "data/publish.h"

#include "base/output_lock.h"

namespace mtl {

SealedTokenFiles::SealedTokenFiles(const Json& provenance, TokenFilePair& files)
    : record_(files.written.prefix + ".json"), files_(&files) {
  record_.write(provenance.dump(2) + "\n");
  record_.seal();
}

void publish_token_files(std::vector<SealedTokenFiles>& files) {
  for (const SealedTokenFiles& one : files) {
    const std::string index = one.files_->written.prefix + ".idx";
    const bool is_old = file_exists(index);
    remove_old_file(index);
    if (is_old) sync_directory(parent_folder(index));
  }
  for (SealedTokenFiles& one : files) {
    one.record_.commit();
    one.files_->commit();
  }
}

}  // namespace mtl
