// Compares BpeTokenizer with the plain ReferenceBpe (reference_bpe.h) on files, in two threads:
//   mtl_text_exactness VOCAB.json MERGES.txt CLASSES.json < LIST
// LIST has one file name per line. The files can contain arbitrary bytes. Prints the totals compared. Exits with 1 if
// ids or texts differ, or if LIST is empty.
#include <atomic>
#include <cstdio>
#include <iostream>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "tests/text/reference_bpe.h"
#include "text/bpe_tokenizer.h"

using namespace mtl;

namespace {

/// The remaining file names, shared by the threads.
class FileList {
 public:
  bool next(std::string& name) {
    std::lock_guard lock(mutex_);
    return static_cast<bool>(std::getline(std::cin, name));
  }

 private:
  std::mutex mutex_;
};

struct Totals {
  std::atomic<std::uint64_t> files = 0, bytes = 0, tokens = 0, differing_files = 0;
};

void compare(const BpeVocabulary& vocabulary, const std::string& classes, FileList& list, Totals& totals) {
  BpeTokenizer tokenizer(vocabulary, "the vocabulary");
  ReferenceBpe reference(vocabulary, classes, 1000000);
  auto encoder = tokenizer.make_encoder(EncoderMemory::large);
  std::string name;
  std::vector<std::int32_t> ids;
  while (list.next(name)) {
    std::string text = read_file(name);
    ids.clear();
    encoder->append(text, ids);
    bool same = ids == reference.encode(text) && tokenizer.decode(ids) == text;
    if (!same) std::fprintf(stderr, "%s: ids or text differ\n", name.c_str());
    totals.files += 1, totals.bytes += text.size(), totals.tokens += ids.size(), totals.differing_files += same ? 0 : 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  try {
    BpeVocabulary vocabulary = read_vocab_and_merges(argv[1], argv[2]);
    FileList list;
    Totals totals;
    {
      std::jthread second([&] { compare(vocabulary, argv[3], list, totals); });
      compare(vocabulary, argv[3], list, totals);
    }
    std::printf("%lu files, %lu bytes, %lu tokens compared; %lu files differ\n", totals.files.load(),
                totals.bytes.load(), totals.tokens.load(), totals.differing_files.load());
    return totals.differing_files == 0 && totals.files > 0 ? 0 : 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
