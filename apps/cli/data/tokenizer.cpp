#include "cli/data/tokenizer.h"

#include "cli/data/commands.h"
#include "cli/flags/tokenizer_flags.h"
#include "cli/run_main.h"
#include "data/provenance.h"

namespace mtl {

bool names_tokenizer(const TokenizerOptions& options) {
  return options.names_tokenizer() || options.null_tokenizer_eod.has_value();
}

void check_optional_tokenizer(Flags& flags, const TokenizerOptions& options) {
  if (names_tokenizer(options)) check_tokenizer_flags(flags, options);
}

void add_inspection_flags(Flags& flags, DataInspection& options, const std::string& schema) {
  flags.positional("PREFIX", options.prefixes, kPrefixHelp, kWhatPrefix);
  flags.section("Output");
  flags.add_switch("--json", options.json, "print one JSON line per PREFIX, schema " + schema);
  add_tokenizer_flags(flags, options.tokenizer);
  flags.section("Running");
  add_threads_flag(flags, options.threads);
  flags.check([&] { check_optional_tokenizer(flags, options.tokenizer); });
}

std::unique_ptr<Tokenizer> load_optional_tokenizer(const TokenizerOptions& options) {
  return names_tokenizer(options) ? load_tokenizer(options) : nullptr;
}

Json describe_tokenizer(const Tokenizer& tokenizer) {
  return Json::object(
      {{"type", tokenizer.type()}, {"vocab_size", tokenizer.vocab_size()}, {"xxh3", hash_text(tokenizer.hash())}});
}

void warn_of_provenance(const IndexedDataset& data, const Tokenizer* tokenizer, Console& console) {
  if (const std::string fault = provenance_fault(data.prefix()); !fault.empty()) console.warn(fault);
  if (tokenizer == nullptr) return;
  const auto provenance = read_provenance(data.prefix());
  const Json* made_with = provenance ? provenance->find("tokenizer") : nullptr;
  if (made_with == nullptr || !made_with->is_object()) return;
  const std::string hash = made_with->string_or("xxh3", "");
  if (hash.empty() || hash == hash_text(tokenizer->hash())) return;
  console.warn(cat(data.prefix(), ".json names a different tokenizer (",
                   made_with->string_or("type", "of unknown type"), ", hash ", hash, ") than the flags (",
                   tokenizer->type(), ", hash ", hash_text(tokenizer->hash()), "); the text may be wrong"));
}

std::optional<VocabularySize> find_vocabulary_size(const TokenizerOptions& options, const Tokenizer* tokenizer,
                                                   const std::string& prefix) {
  if (tokenizer != nullptr) return VocabularySize{tokenizer->vocab_size(), tokenizer->type()};
  if (options.vocab_size) return VocabularySize{*options.vocab_size, "--vocab-size"};
  return recorded_vocabulary_size(prefix);
}

}  // namespace mtl
