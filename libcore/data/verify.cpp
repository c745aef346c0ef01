#include "data/verify.h"

#include "data/indexed_dataset.h"
#include "data/token_counts.h"

namespace mtl {
namespace {

void check_files(Verdict& verdict, const std::optional<VocabularySize>& vocabulary, int threads) {
  const IndexedDataset data(verdict.prefix);
  verdict.documents = data.documents();
  verdict.sequences = data.sequences();
  verdict.tokens = data.tokens();
  verdict.type = data.type();
  if (vocabulary) check_token_range(data, vocabulary->size, threads);
  verdict.vocabulary = vocabulary;
  verdict.provenance = check_provenance(data);
  data.check_sizes();
}

}  // namespace

std::optional<VocabularySize> recorded_vocabulary_size(const std::string& prefix) {
  const auto provenance = read_provenance(prefix);
  const Json* made_with = provenance ? provenance->find("tokenizer") : nullptr;
  if (made_with == nullptr || !made_with->is_object()) return std::nullopt;
  const std::int64_t size = made_with->int_or("vocab_size", 0);
  if (size < 1) return std::nullopt;
  return VocabularySize{size, prefix + ".json"};
}

Verdict verify_token_files(const std::string& path, const std::optional<VocabularySize>& vocabulary, int threads) {
  Verdict verdict;
  verdict.prefix = dataset_prefix(path);
  try {
    check_files(verdict, vocabulary, threads);
  } catch (const BrokenRule& broken) {
    verdict.code = broken.code();
    verdict.message = broken.what();
    verdict.violation = broken.violation();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data && error.code() != Exit::io) throw;
    verdict.code = error.code();
    verdict.message = error.what();
  }
  return verdict;
}

}  // namespace mtl
