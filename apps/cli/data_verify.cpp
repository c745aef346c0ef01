// mtl-data verify: checks token files against their entire format.
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "cli/alone.h"
#include "cli/data_commands.h"
#include "cli/data_tokenizer.h"
#include "data/provenance.h"
#include "data/token_counts.h"

namespace mtl {
namespace {

/// The result of checking one .bin and .idx pair.
struct Verdict {
  std::string prefix;
  Exit code = Exit::ok;
  std::string message;                     // about the first broken rule
  std::optional<BrokenRule::Place> place;  // of the first broken rule
  std::string summary;                     // if no rule is broken
  Json figures = Json::object();
};

void check_files(const DataInspection& options, const Tokenizer* tokenizer, Verdict& verdict) {
  const IndexedDataset data(verdict.prefix);
  verdict.figures = Json::object({{"documents", data.documents()},
                                  {"sequences", data.sequences()},
                                  {"tokens", data.tokens()},
                                  {"dtype", name_of(data.type())}});
  std::string summary = cat(with_commas(data.documents()), " documents, ", with_commas(data.sequences()),
                            " sequences, ", with_commas(data.tokens()), " tokens as ", name_of(data.type()));
  const auto vocabulary = find_vocabulary_size(options.tokenizer, tokenizer, data);
  if (vocabulary) {
    check_token_range(data, vocabulary->size, resolve_threads(options.threads));
    summary += cat("; all ids are below ", with_commas(vocabulary->size), " (", vocabulary->source, ")");
  }
  const ProvenanceCheck compared = check_provenance(data);
  data.check_sizes();
  if (compared != ProvenanceCheck::none) summary += cat("; agrees with ", data.prefix(), ".json");
  if (compared == ProvenanceCheck::counts) summary += ", which records no hashes: a changed token is not detected";
  verdict.figures.set("vocab_size", vocabulary ? Json(vocabulary->size) : Json());
  verdict.figures.set("provenance", compared != ProvenanceCheck::none);
  verdict.figures.set("hashes", compared == ProvenanceCheck::content);
  verdict.summary = summary;
}

Verdict verify(const DataInspection& options, const Tokenizer* tokenizer, const std::string& prefix) {
  Verdict verdict;
  verdict.prefix = dataset_prefix(prefix);
  try {
    check_files(options, tokenizer, verdict);
  } catch (const BrokenRule& broken) {
    verdict.code = broken.code();
    verdict.message = broken.what();
    verdict.place = broken.place();
  } catch (const Error& error) {
    if (error.code() != Exit::bad_data && error.code() != Exit::io) throw;
    verdict.code = error.code();
    verdict.message = error.what();
  }
  return verdict;
}

Json to_json(const Verdict& verdict) {
  Json out =
      Json::object({{"schema", "mtl-data-verify/1"}, {"prefix", verdict.prefix}, {"ok", verdict.code == Exit::ok}});
  if (verdict.code == Exit::ok) {
    for (const auto& [key, value] : verdict.figures.as_object()) out.set(key, value);
    return out;
  }
  const auto& place = verdict.place;
  out.set("rule", place ? Json(place->rule) : Json());
  out.set("file", place ? Json(place->file) : Json());
  out.set("offset", place && place->offset ? Json(*place->offset) : Json());
  return out.set("message", verdict.message);
}

std::string to_text(const Verdict& verdict) {
  if (verdict.code == Exit::ok) return cat(verdict.prefix, ": sound: ", verdict.summary, "\n");
  if (!verdict.place) return cat(verdict.prefix, ": cannot be read\n");
  const auto& [rule, file, offset] = *verdict.place;
  return cat(verdict.prefix, ": broken: rule ", rule, ", ", offset ? cat("byte ", *offset, " of ") : "", file, "\n");
}

Exit verify_all(const DataInspection& options, Console& console) {
  const auto tokenizer = load_optional_tokenizer(options.tokenizer);
  Exit worst = Exit::ok;
  for (const std::string& prefix : options.prefixes) {
    const Verdict verdict = verify(options, tokenizer.get(), prefix);
    print_out(options.json ? to_json(verdict).dump() + "\n" : to_text(verdict));
    if (verdict.code == Exit::ok) continue;
    std::fprintf(stderr, "%s: %s\n", console.program().c_str(), verdict.message.c_str());
    if (worst != Exit::bad_data) worst = verdict.code;
  }
  return worst;
}

}  // namespace

int data_verify(int argc, const char* const* argv) {
  DataInspection options;
  Flags flags("mtl-data verify",
              "check token files against their format, against PREFIX.json, and ids against a vocabulary size");
  add_inspection_flags(flags, options, "mtl-data-verify/1");
  return run_alone(flags, argc, argv, [&](Console& console) { return verify_all(options, console); });
}

}  // namespace mtl
